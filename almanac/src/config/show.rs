//! `almanac config show`.

use std::{ffi::OsString, fmt::Write as _};

use clap::Subcommand;
use serde::Serialize;

use super::{
    COMPACT, CONFIG, Config, DATA, ENDPOINT, FEATURE_SAMPLE, Given, LISTEN, LOG_FORMAT, Name, Origin,
    QUERY_MEMORY, REGION, SEGMENT_CACHE_MEMORY, STORE, Setting, URL,
};
use crate::output::{ShowFormat, Shown, aligned, print};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print each value and where it comes from.
    Show {
        #[command(flatten)]
        shown: Shown,
    },
}

/// A setting in the output.
#[derive(Debug, Serialize)]
struct Row {
    setting: &'static str,
    value: Option<String>,
    from: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip)]
    origin: String,
}

/// Prints the effective values, each with its origin.
pub(crate) fn show(config: &Config, format: ShowFormat) -> anyhow::Result<()> {
    let rows = rows(config);
    match format {
        ShowFormat::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        ShowFormat::Table => {
            let mut table = aligned(&["setting", "value", "from"], &[]);
            for row in rows {
                table.add_row([row.setting.to_owned(), row.value.unwrap_or_else(|| "-".into()), row.origin]);
            }
            print(&table);
        }
    }
    Ok(())
}

fn rows(config: &Config) -> Vec<Row> {
    let file = config.file.value.as_ref().map(|path| path.display().to_string());
    let mut rows = vec![
        row(CONFIG.key, file, &config.file.origin),
        row(STORE.key, Some(config.store.value.to_string()), &config.store.origin),
        row(DATA.key, Some(config.data.value.display().to_string()), &config.data.origin),
        row(URL.key, config.url.value.clone(), &config.url.origin),
        row(REGION.key, config.region.value.clone(), &config.region.origin),
        row(ENDPOINT.key, config.endpoint.value.clone(), &config.endpoint.origin),
        row(LISTEN.key, Some(config.listen.value.to_string()), &config.listen.origin),
        row(LOG_FORMAT.key, Some(config.log_format.value.to_string()), &config.log_format.origin),
        row(QUERY_MEMORY.key, Some(config.query_memory.value.to_string()), &config.query_memory.origin),
        row(
            SEGMENT_CACHE_MEMORY.key,
            Some(config.segment_cache_memory.value.to_string()),
            &config.segment_cache_memory.origin,
        ),
        row(FEATURE_SAMPLE.key, Some(config.feature_sample.value.to_string()), &config.feature_sample.origin),
        row(COMPACT.key, Some(config.compact.value.to_string()), &config.compact.origin),
    ];
    rows.extend(
        config.oidc.all.iter().map(|(key, setting)| row(key, setting.value.clone(), &setting.origin)),
    );
    rows
}

fn row(setting: &'static str, value: Option<String>, origin: &Origin) -> Row {
    let (from, place, line) = match origin {
        Origin::Flag(flag) => ("flag", Some((*flag).to_owned()), None),
        Origin::Environment(variable) => ("environment", Some((*variable).to_owned()), None),
        Origin::File { path, line } => ("file", Some(path.display().to_string()), Some(*line)),
        Origin::Default => ("default", None, None),
    };
    Row { setting, value, from, name: place, line, origin: origin.to_string() }
}

/// Characters that a shell takes without quotes.
const PLAIN: &str = "-_./:=@%+,";

impl Given {
    /// Options by which another call of this program has the same settings: those given on the command line, each
    /// behind a space and quoted for a shell. The environment and the default file apply to the next call too.
    pub(super) fn again(&self) -> String {
        let all: [(&Name, &Option<Setting<OsString>>); 12] = [
            (&CONFIG, &self.config),
            (&STORE, &self.store),
            (&DATA, &self.data),
            (&URL, &self.url),
            (&REGION, &self.region),
            (&ENDPOINT, &self.endpoint),
            (&LISTEN, &self.listen),
            (&LOG_FORMAT, &self.log_format),
            (&QUERY_MEMORY, &self.query_memory),
            (&SEGMENT_CACHE_MEMORY, &self.segment_cache_memory),
            (&FEATURE_SAMPLE, &self.feature_sample),
            (&COMPACT, &self.compact),
        ];
        let mut options = String::new();
        for (name, setting) in all {
            if let Some(Setting { value, origin: Origin::Flag(_) }) = setting {
                _ = write!(options, " {} {}", name.flag, quoted(&value.to_string_lossy()));
            }
        }
        options
    }
}

/// A word of a command line, quoted for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || PLAIN.contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_one_word_of_a_shell() {
        assert_eq!(quoted("sqlite:a/b-1.db"), "sqlite:a/b-1.db");
        assert_eq!([quoted(""), quoted("my data"), quoted("it's")], ["''", "'my data'", r"'it'\''s'"]);
    }
}
