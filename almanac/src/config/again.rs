//! Options by which another call of this program has the same settings.

use std::{ffi::OsString, fmt::Write as _};

use super::{
    COMPACT, CONFIG, DATA, ENDPOINT, FEATURE_SAMPLE, Given, LISTEN, LOG_FORMAT, Name, Origin, QUERY_MEMORY,
    REGION, SEGMENT_CACHE_MEMORY, STORE, Setting, URL,
};

/// Characters that a shell takes without quotes.
const PLAIN: &str = "-_./:=@%+,";

impl Given {
    /// Options given on the command line, each behind a space and quoted for a shell. The environment and the default file apply
    /// to the next call too.
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
