//! References to the secrets that a release needs: names and versions, never values.
//!
//! The catalog is read by many and kept for long, so texts that look like a secret itself are refused: those with the prefix of
//! known secrets, and any stretch of more than [`MAX_STRETCH`] letters and digits, as random texts have. A short password that
//! looks like a name is not noticed.

use std::collections::BTreeMap;

use event::{Error, Result};

/// The version of each secret that a release needs, by the name of the secret.
pub type Secrets = BTreeMap<String, String>;

/// Maximum secrets of a release.
pub const MAX_SECRETS: usize = 64;

/// Maximum letters and digits in a row.
const MAX_STRETCH: usize = 20;

/// Maximum number of such stretches in a name, and in a version; one sign is between two.
const MAX_IN_NAME: usize = 16;
const MAX_IN_VERSION: usize = 5;

/// Signs between stretches of a name; of a version all but the slash.
const BETWEEN: &str = "._/:+-";

/// Numbers of hexadecimal digits of a digest, which a version may be.
const DIGESTS: [usize; 3] = [32, 40, 64];

/// Prefixes of known secrets: tokens of Almanac, GitHub, GitLab, OpenAI, Stripe, Slack, AWS, Google, HashiCorp Vault, npm, PyPI,
/// DigitalOcean, SendGrid, Hugging Face; signed JWTs.
const PREFIXES: [&str; 27] = [
    "alm_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "hvs.",
    "hvb.",
    "npm_",
    "pypi-",
    "dop_v1_",
    "SG.",
    "hf_",
    "eyJ",
];

/// Pattern of a name, for a schema.
pub(super) const SECRET_NAME_PATTERN: &str = "^[A-Za-z0-9]{1,20}([._/:+-][A-Za-z0-9]{1,20}){0,15}$";

/// Pattern of a version, for a schema.
pub(super) const SECRET_VERSION_PATTERN: &str =
    "^([A-Za-z0-9]{1,20}([._:+-][A-Za-z0-9]{1,20}){0,4}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})$";

/// Parses a reference such as `db/password@3`.
///
/// # Errors
/// `Invalid`, when it is not of this form.
pub fn parse_secret(text: &str) -> Result<(String, String)> {
    // The text may be a secret, so no error repeats it.
    let wrong = || Error::invalid("a secret is referred to as NAME@VERSION, such as db/password@3");
    let (name, version) = text.rsplit_once('@').ok_or_else(wrong)?;
    Ok((name.to_owned(), version.to_owned()))
}

/// Refuses texts that are no reference, or look like a secret.
pub(super) fn check(secrets: &Secrets) -> Result<()> {
    if secrets.len() > MAX_SECRETS {
        let message = format!("`secrets` has {} names, more than {MAX_SECRETS}", secrets.len());
        return Err(Error::invalid(message));
    }
    for (name, version) in secrets {
        check_text("name", name, MAX_IN_NAME, false)?;
        check_text("version", version, MAX_IN_VERSION, true)?;
    }
    Ok(())
}

fn check_text(what: &str, text: &str, most: usize, is_version: bool) -> Result<()> {
    let wrong = |why: &str| {
        Err(Error::invalid(format!(
            "the {what} of a secret {why}; a release refers to secrets by name and version, and never holds one"
        )))
    };
    let is_hex = |letter: u8| letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter);
    let is_digest = is_version && DIGESTS.contains(&text.len()) && text.bytes().all(is_hex);
    let is_between = |letter: char| BETWEEN.contains(letter) && !(is_version && letter == '/');
    let stretches: Vec<&str> = text.split(is_between).collect();
    let is_word =
        |stretch: &&str| !stretch.is_empty() && stretch.chars().all(|at| at.is_ascii_alphanumeric());
    if PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
        return wrong("begins as secrets do");
    }
    if stretches.len() > most || !stretches.iter().all(is_word) {
        return wrong(&format!(
            "should be at most {most} words of letters and digits, with one of `{BETWEEN}` between"
        ));
    }
    if !is_digest && stretches.iter().any(|stretch| stretch.len() > MAX_STRETCH) {
        return wrong(&format!(
            "looks like a secret: it has more than {MAX_STRETCH} letters and digits in a row"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_good(name: &str, version: &str) -> bool {
        check(&Secrets::from([(name.to_owned(), version.to_owned())])).is_ok()
    }

    #[test]
    fn references_of_what_keeps_secrets_are_good() {
        for (name, version) in [
            ("db/password", "3"),
            ("DB_PASSWORD", "2026-11-20"),
            (
                "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf",
                "8c7f5a1e-6a40-4d0e-9ad1-2f5c3b1a7d90",
            ),
            ("projects/42/secrets/key", "latest-3"),
            ("kv/api-key", "d41d8cd98f00b204e9800998ecf8427e"),
        ] {
            assert!(is_good(name, version), "{name} {version}");
        }
    }

    #[test]
    fn secret_lookalikes_are_refused_and_not_repeated() {
        let long = "a".repeat(MAX_STRETCH + 1);
        for (name, version) in [
            ("db", "alm_abc"),
            ("ghp_abc", "1"),
            ("db", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"),
            ("wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY", "1"),
            (&long, "1"),
            ("d41d8cd98f00b204e9800998ecf8427e", "1"),
            ("db", "D41D8CD98F00B204E9800998ECF8427E"),
            ("postgres://ann:secret@db/prod", "1"),
            ("db password", "1"),
            ("db", "hunter2!"),
            ("", "1"),
            ("db", ""),
            ("-----BEGIN", "1"),
        ] {
            let secrets = Secrets::from([(name.to_owned(), version.to_owned())]);
            let error = check(&secrets).unwrap_err().to_string();
            for text in [name, version].into_iter().filter(|text| text.len() > 6) {
                assert!(!error.contains(text), "{error}");
            }
        }
        assert!(parse_secret("hunter2").unwrap_err().to_string().find("hunter2").is_none());
        assert_eq!(parse_secret("db/password@3").unwrap(), ("db/password".into(), "3".into()));
        let many = (0..=MAX_SECRETS).map(|n| (format!("s{n}"), "1".to_owned()));
        assert!(check(&many.collect()).is_err());
    }
}
