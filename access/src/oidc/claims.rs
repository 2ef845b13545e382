//! Claims of a bearer whose issuer is verified.

use event::{Timestamp, id::check_name};
use log::key;
use serde_json::{Map, Value};

use super::{OidcSettings, SKEW_SECONDS, Wrong};

/// Maximum groups that a bearer may name.
const MAX_GROUPS: usize = 200;

/// Trusted claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Name of the user or system.
    pub(crate) name: String,
    /// True if the name is that of a system.
    pub(crate) is_system: bool,
    /// Names of groups. Unknown ones have no effect.
    pub(crate) groups: Vec<String>,
    /// End of their validity.
    pub(crate) until: Timestamp,
}

impl Claims {
    /// Reads the claims of a bearer whose signature, issuer and audience are valid.
    pub(super) fn read(
        all: &Map<String, Value>,
        settings: &OidcSettings,
        now: Timestamp,
    ) -> Result<Self, Wrong> {
        // An issuer is one text, not a list of several.
        if all.get("iss").and_then(Value::as_str) != Some(&settings.issuer) {
            return Err(Wrong::Issuer);
        }
        let until = time(all, "exp")?.ok_or_else(|| Wrong::Claim("exp".into()))?.plus_seconds(SKEW_SECONDS);
        if until <= now {
            return Err(Wrong::Expired);
        }
        if time(all, "nbf")?.is_some_and(|from| from > now.plus_seconds(SKEW_SECONDS)) {
            return Err(Wrong::Early);
        }
        let system = settings.system_claim.as_deref().filter(|claim| all.contains_key(*claim));
        let name = name(all, system.unwrap_or(&settings.principal_claim), settings)?;
        Ok(Self { name, is_system: system.is_some(), groups: groups(all, settings)?, until })
    }
}

/// Time of a claim in seconds, possibly with a fraction.
fn time(all: &Map<String, Value>, claim: &str) -> Result<Option<Timestamp>, Wrong> {
    let Some(value) = all.get(claim) else { return Ok(None) };
    let micros = value.as_f64().map(|seconds| seconds * 1e6).filter(|micros| micros.abs() < 1e18);
    let at = micros.and_then(|micros| Timestamp::from_micros(micros as i64));
    at.map(Some).ok_or_else(|| Wrong::Claim(claim.to_owned()))
}

fn name(all: &Map<String, Value>, claim: &str, settings: &OidcSettings) -> Result<String, Wrong> {
    let wrong = || Wrong::Claim(claim.to_owned());
    // Many issuers let people write any address into their profile. Some state nothing about verification: there the operator who
    // sets the claim must know.
    if claim == "email" && all.get("email_verified").is_some_and(|verified| *verified != Value::Bool(true)) {
        return Err(Wrong::Claim("email_verified".into()));
    }
    let text = all.get(claim).and_then(Value::as_str).ok_or_else(wrong)?;
    let name = match (text.rsplit_once('@'), &settings.domain) {
        (Some((name, domain)), Some(own)) if domain.eq_ignore_ascii_case(own) => name,
        (Some(_), _) => return Err(wrong()),
        (None, _) => text,
    };
    // A name in the form of an id would be taken for one.
    if check_name(name).is_err() || key::parse_id(name).is_some() {
        return Err(wrong());
    }
    Ok(name.to_owned())
}

fn groups(all: &Map<String, Value>, settings: &OidcSettings) -> Result<Vec<String>, Wrong> {
    let Some(claim) = &settings.groups_claim else { return Ok(Vec::new()) };
    let wrong = || Wrong::Claim(claim.clone());
    let mut names: Vec<&str> = match all.get(claim) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => all.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?,
        Some(_) => return Err(wrong()),
    };
    names.retain(|name| check_name(name).is_ok() && key::parse_id(name).is_none());
    names.sort_unstable();
    names.dedup();
    // Leaving some out would give other rights than the issuer intends.
    if names.len() > MAX_GROUPS { Err(wrong()) } else { Ok(names.into_iter().map(str::to_owned).collect()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::oidc::Signing;

    fn settings(principal_claim: &str, domain: Option<&str>) -> OidcSettings {
        OidcSettings {
            issuer: "https://issuer".into(),
            audiences: vec!["almanac".into()],
            jwks_url: None,
            algorithms: Signing::usual(),
            principal_claim: principal_claim.into(),
            domain: domain.map(str::to_owned),
            system_claim: None,
            groups_claim: Some("groups".into()),
            creates_users: false,
            admins: false,
        }
    }

    fn read(mut claims: Value, settings: &OidcSettings) -> Result<Claims, Wrong> {
        let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        claims["iss"] = "https://issuer".into();
        if claims.get("exp").is_none() {
            claims["exp"] = (now.micros() / 1_000_000).into();
        }
        Claims::read(claims.as_object().unwrap(), settings, now)
    }

    #[test]
    fn name_claim_needs_valid_name_or_domain_address() {
        let named = |claims: Value, claim: &str, domain: Option<&str>| {
            read(claims, &settings(claim, domain)).map(|claims| claims.name)
        };
        assert_eq!(named(json!({ "sub": "ann" }), "sub", None), Ok("ann".to_owned()));
        let wrong = |claim: &str| Err(Wrong::Claim(claim.to_owned()));
        for sub in
            [json!(null), json!(7), json!(""), json!("a b"), json!("ann@example.com"), json!("user:ann")]
        {
            assert_eq!(named(json!({ "sub": sub }), "sub", None), wrong("sub"));
        }
        assert_eq!(named(json!({ "email": "ann" }), "sub", None), wrong("sub"), "it is not there");
        let id = event::Id::new(Timestamp::default());
        for text in [id.as_str().to_owned(), format!("u_{id}")] {
            assert_eq!(named(json!({ "sub": text }), "sub", None), wrong("sub"), "an id of another one");
        }
        let mail = |address: &str| named(json!({ "email": address }), "email", Some("example.com"));
        assert_eq!(mail("ann@Example.com"), Ok("ann".to_owned()));
        for address in [
            "ann@example.org",
            "ann@sub.example.com",
            "ann@example.com@example.org",
            "a@b@example.com",
            "@example.com",
        ] {
            assert_eq!(mail(address), wrong("email"), "{address}");
        }
        for unverified in [json!(false), json!("true"), json!(null)] {
            let claims = json!({ "email": "ann@example.com", "email_verified": unverified });
            assert_eq!(named(claims, "email", Some("example.com")), wrong("email_verified"), "{unverified}");
        }
    }

    #[test]
    fn system_name_comes_from_system_claim() {
        let of_systems = OidcSettings { system_claim: Some("client".into()), ..settings("sub", None) };
        let found = |claims: Value| read(claims, &of_systems).map(|claims| (claims.name, claims.is_system));
        assert_eq!(found(json!({ "sub": "ann" })), Ok(("ann".to_owned(), false)));
        assert_eq!(found(json!({ "sub": "s-1", "client": "nightly" })), Ok(("nightly".to_owned(), true)));
        assert_eq!(found(json!({ "sub": "ann", "client": 7 })), Err(Wrong::Claim("client".to_owned())));
        let of_users = read(json!({ "sub": "ann", "client": "nightly" }), &settings("sub", None)).unwrap();
        assert_eq!((&*of_users.name, of_users.is_system), ("ann", false));
    }

    #[test]
    fn group_claim_is_deduplicated_and_bounded() {
        let groups = |groups: Value| {
            read(json!({ "sub": "ann", "groups": groups }), &settings("sub", None))
                .map(|claims| claims.groups)
        };
        assert_eq!(groups(json!(["b", "a", "b", "/x/y", ""])), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(groups(json!("a")), Ok(vec!["a".to_owned()]));
        assert_eq!(groups(json!(null)), Ok(Vec::new()));
        let many = |count: usize| json!((0..count).map(|n| format!("g{n}")).collect::<Vec<_>>());
        assert_eq!(groups(many(MAX_GROUPS)).unwrap().len(), MAX_GROUPS);
        for wrong in [many(MAX_GROUPS + 1), json!([1]), json!({})] {
            assert_eq!(groups(wrong), Err(Wrong::Claim("groups".to_owned())));
        }
    }

    #[test]
    fn times_hold_up_to_the_skew_of_clocks() {
        let at = Timestamp::parse("2026-06-10T00:00:00Z").unwrap().micros() as f64 / 1e6;
        let read = |claims: Value| read(claims, &settings("sub", None)).map(|_| ());
        assert_eq!(read(json!({ "sub": "ann", "exp": at - 59.5 })), Ok(()));
        assert_eq!(read(json!({ "sub": "ann", "exp": at - 60.0 })), Err(Wrong::Expired));
        assert_eq!(read(json!({ "sub": "ann", "nbf": at + 60.0 })), Ok(()));
        assert_eq!(read(json!({ "sub": "ann", "nbf": at + 60.5 })), Err(Wrong::Early));
        for exp in [json!(null), json!("soon"), json!(1e300), json!(-1e300)] {
            assert_eq!(
                read(json!({ "sub": "ann", "exp": exp })),
                Err(Wrong::Claim("exp".to_owned())),
                "{exp}"
            );
        }
    }
}
