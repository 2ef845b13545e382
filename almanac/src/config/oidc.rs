//! Table `[oidc]`: the trusted issuer of bearers. Its settings are keys of that table of the file and variables of the
//! environment; they have no flags.

use std::{collections::BTreeMap, ffi::OsString};

use access::oidc::{OidcSettings, Signing};
use event::{Error, Result};

use super::{Origin, Setting};

const ISSUER: &str = "oidc.issuer";
const AUDIENCE: &str = "oidc.audience";
const JWKS_URL: &str = "oidc.jwks_url";
const ALGORITHMS: &str = "oidc.algorithms";
const PRINCIPAL_CLAIM: &str = "oidc.principal_claim";
const SYSTEM_CLAIM: &str = "oidc.system_claim";
const DOMAIN: &str = "oidc.domain";
const GROUPS_CLAIM: &str = "oidc.groups_claim";
const CREATE_USERS: &str = "oidc.create_users";
const ADMIN: &str = "oidc.admin";

/// Settings: key, variable, and default.
const SETTINGS: [(&str, &str, Option<&str>); 10] = [
    (ISSUER, "ALMANAC_OIDC_ISSUER", None),
    (AUDIENCE, "ALMANAC_OIDC_AUDIENCE", None),
    (JWKS_URL, "ALMANAC_OIDC_JWKS_URL", None),
    (ALGORITHMS, "ALMANAC_OIDC_ALGORITHMS", Some("RS256,ES256,EdDSA")),
    (PRINCIPAL_CLAIM, "ALMANAC_OIDC_PRINCIPAL_CLAIM", Some("sub")),
    (SYSTEM_CLAIM, "ALMANAC_OIDC_SYSTEM_CLAIM", None),
    (DOMAIN, "ALMANAC_OIDC_DOMAIN", None),
    (GROUPS_CLAIM, "ALMANAC_OIDC_GROUPS_CLAIM", Some("groups")),
    (CREATE_USERS, "ALMANAC_OIDC_CREATE_USERS", Some("false")),
    (ADMIN, "ALMANAC_OIDC_ADMIN", Some("false")),
];

/// Values by key.
pub(super) type Values = BTreeMap<&'static str, Setting<OsString>>;

/// Settings with their origins, and their meaning; none without an issuer.
#[derive(Debug)]
pub(crate) struct Oidc {
    /// Settings by key.
    pub(crate) all: Vec<(&'static str, Setting<Option<String>>)>,
    /// Meaning of the settings.
    pub(crate) settings: Option<OidcSettings>,
}

/// Key of a setting by its name in the table of the file.
pub(super) fn key(name: &str) -> Option<&'static str> {
    SETTINGS.iter().find_map(|(key, ..)| (key.strip_prefix("oidc.") == Some(name)).then_some(*key))
}

/// Values in the environment. An empty variable counts as none.
pub(super) fn in_environment() -> Values {
    let value = |variable| std::env::var_os(variable).filter(|value| !value.is_empty());
    let found = SETTINGS.iter().filter_map(|(key, variable, _)| {
        Some((*key, Setting { value: value(variable)?, origin: Origin::Environment(variable) }))
    });
    found.collect()
}

/// Lays the given values over the file.
pub(super) fn resolve(mut given: Values, mut file: Values) -> Result<Oidc> {
    let mut all = Vec::new();
    for (key, _, default) in SETTINGS {
        let setting = match given.remove(key).or_else(|| file.remove(key)) {
            Some(Setting { value, origin }) => {
                let wrong = |_| Error::invalid(format!("{} is not text in UTF-8", origin.subject(key)));
                Setting { value: Some(value.into_string().map_err(wrong)?), origin }
            }
            None => Setting { value: default.map(str::to_owned), origin: Origin::Default },
        };
        all.push((key, setting));
    }
    let settings = settings(&all)?;
    Ok(Oidc { all, settings })
}

fn settings(all: &[(&'static str, Setting<Option<String>>)]) -> Result<Option<OidcSettings>> {
    let setting = |key: &'static str| all.iter().find(|(known, _)| *known == key).map(|(_, setting)| setting);
    let text = |key: &'static str| {
        setting(key).and_then(|setting| setting.value.clone()).filter(|text| !text.is_empty())
    };
    let list = |key: &'static str| -> Vec<String> {
        let all = text(key).unwrap_or_default();
        all.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
    };
    let subject = |key: &'static str| {
        setting(key).map_or_else(|| key.to_owned(), |setting| setting.origin.subject(key))
    };
    let Some(issuer) = text(ISSUER) else {
        let idle = all.iter().find(|(_, setting)| setting.origin != Origin::Default);
        return match idle {
            Some((key, setting)) => {
                let message = format!("{} has no effect without {ISSUER}", setting.origin.subject(key));
                Err(Error::invalid(message))
            }
            None => Ok(None),
        };
    };
    let algorithms = list(ALGORITHMS).iter().map(|name| name.parse::<Signing>()).collect::<Result<_>>();
    let switch = |key: &'static str| match text(key).as_deref() {
        Some("true") => Ok(true),
        Some("false") | None => Ok(false),
        Some(_) => Err(Error::invalid(format!("{} is neither true nor false", subject(key)))),
    };
    let settings = OidcSettings {
        issuer,
        audiences: list(AUDIENCE),
        jwks_url: text(JWKS_URL),
        algorithms: algorithms
            .map_err(|error| Error::invalid(format!("{}: {error}", subject(ALGORITHMS))))?,
        principal_claim: text(PRINCIPAL_CLAIM).unwrap_or_default(),
        system_claim: text(SYSTEM_CLAIM),
        domain: text(DOMAIN),
        groups_claim: text(GROUPS_CLAIM),
        creates_users: switch(CREATE_USERS)?,
        admins: switch(ADMIN)?,
    };
    if settings.audiences.is_empty() {
        let message = format!("{} needs {AUDIENCE}: for whom bearers must be", subject(ISSUER));
        return Err(Error::invalid(message));
    }
    settings.check().map_err(|error| Error::invalid(format!("{}: {error}", subject(ISSUER))))?;
    Ok(Some(settings))
}
