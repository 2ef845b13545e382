//! Examples of commands in their help: each is declared once, in docs/commands.md, and a test runs and compares it.

use clap::Command;

/// Page with an example of each command: a heading with the command, its input, and its output.
const PAGE: &str = include_str!("../../docs/commands.md");

/// Heading of the example of a command.
const HEADING: &str = "### almanac ";

/// Adds the examples to the help of their commands.
pub(crate) fn with_examples(command: Command) -> Command {
    examples().fold(command, |command, (words, example)| add(command, &words, &example))
}

/// Words of each command with an example, and the example in the form of the help.
fn examples() -> impl Iterator<Item = (Vec<&'static str>, String)> {
    PAGE.split(HEADING).skip(1).map(|section| {
        let (words, rest) = section.split_once('\n').unwrap_or((section, ""));
        let mut blocks = rest.split("```");
        let mut block = || {
            let text = blocks.nth(1).unwrap_or_default();
            text.split_once('\n').map_or("", |(_, text)| text).trim_end()
        };
        let typed = block().lines().map(|line| format!("  {line}\n"));
        let mut example = format!("Example:\n{}", typed.collect::<String>());
        block().lines().for_each(|line| example.push_str(&format!("\n  {line}")));
        (words.split_whitespace().collect(), example.trim_end().to_owned())
    })
}

fn add(command: Command, words: &[&str], example: &str) -> Command {
    let Some((first, rest)) = words.split_first() else {
        let known =
            command.get_after_long_help().or(command.get_after_help()).map(|known| format!("{known}\n\n"));
        return command.after_long_help(known.unwrap_or_default() + example);
    };
    match command.find_subcommand(first).is_some() {
        true => command.mut_subcommand(first, |command| add(command, rest, example)),
        false => command,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cli;

    #[test]
    fn every_example_appears_in_its_command_help() {
        let mut all = with_examples(cli::all());
        all.build();
        let mut count = 0;
        for (words, example) in examples() {
            let command = words.iter().try_fold(&all, |command, word| command.find_subcommand(word));
            let command = command.unwrap_or_else(|| panic!("there is no command `{}`", words.join(" ")));
            // Long lines are wrapped.
            let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let help = plain(&command.clone().render_long_help().to_string());
            assert!(help.contains(&plain(&example)), "{}: {help}", words.join(" "));
            assert!(words.iter().all(|word| example.contains(word)), "{example}");
            count += 1;
        }
        let distinct: BTreeSet<Vec<&str>> = examples().map(|(words, _)| words).collect();
        assert_eq!(distinct.len(), count, "one example a command");
    }

    /// Commands whose examples print nothing: they run until they are ended.
    const ENDLESS: [&str; 2] = ["projector", "up"];

    #[test]
    fn every_command_has_an_example_that_prints() {
        fn leaves(command: &Command, path: &str, found: &mut BTreeSet<String>) {
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                let path = format!("{path} {}", sub.get_name());
                if !sub.has_subcommands() {
                    found.insert(path.trim_start().to_owned());
                }
                leaves(sub, &path, found);
            }
        }
        let mut all = BTreeSet::new();
        leaves(&cli::all(), "", &mut all);
        assert!(all.len() > 130, "{}", all.len());
        let known: BTreeSet<String> = examples().map(|(words, _)| words.join(" ")).collect();
        // Commands on datasets share the example of their group.
        let has_example = |words: &String| {
            known.contains(words) || words.rsplit_once(' ').is_some_and(|(group, _)| known.contains(group))
        };
        let without: Vec<&String> = all.iter().filter(|words| !has_example(words)).collect();
        assert_eq!(without, Vec::<&String>::new(), "without an example");
        let silent = examples().filter(|(_, example)| !example.contains("\n\n"));
        assert_eq!(
            silent.map(|(words, _)| words.join(" ")).collect::<BTreeSet<_>>(),
            ENDLESS.map(str::to_owned).into()
        );
    }
}
