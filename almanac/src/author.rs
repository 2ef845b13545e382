//! In whose name a request or a command changes something.

use std::{env, fs, os::unix::fs::MetadataExt, sync::Arc};

use axum::{extract::Request, middleware::Next, response::Response};
use log::audit::{Author, by};
use web::{Requester, Routes};

/// The variables by which systems tell a program whose it is.
const USERS: [&str; 3] = ["USER", "LOGNAME", "USERNAME"];

/// The most characters of the name of a user of this machine that are recorded.
const MAX_USER_CHARS: usize = 64;

/// The user of this machine, in whose name a command works on the table.
pub(crate) fn local() -> Arc<Author> {
    let named = USERS.iter().find_map(|name| env::var(name).ok().filter(|user| !user.is_empty()));
    let named = named.or_else(user_of_process).unwrap_or_else(|| "unknown".to_owned());
    let user: String = named.chars().take(MAX_USER_CHARS).collect();
    Arc::new(Author::named(format!("local:{user}")))
}

/// Whose the process is, by its number: the name in the list of users, else `uid-` and the number. `None`, where there is no
/// `/proc`.
fn user_of_process() -> Option<String> {
    let uid = fs::metadata("/proc/self").ok()?.uid();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    Some(user_in(&users, uid).unwrap_or_else(|| format!("uid-{uid}")))
}

/// The name of a user in the lines of `/etc/passwd`.
fn user_in(users: &str, uid: u32) -> Option<String> {
    let of = |line: &str| {
        let mut parts = line.split(':');
        let (name, number) = (parts.next()?, parts.nth(1)?);
        (number.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    };
    users.lines().find_map(of)
}

/// The caller of a request, in whose name it is worked on.
fn caller(requester: &Requester) -> Author {
    let known = requester.principal.as_deref().map_or_else(Author::anonymous, Author::named);
    let request = Some(requester.request_id.as_ref()).filter(|id| !id.is_empty()).map(str::to_owned);
    Author { request, address: requester.address, ..known }
}

/// The routes, whose requests are worked on in the names of their callers. What finds out who calls must come before.
pub(crate) fn in_the_name_of_callers(routes: Routes) -> Routes {
    let named = async |requester: Requester, request: Request, next: Next| -> Response {
        by(Arc::new(caller(&requester)), next.run(request)).await
    };
    routes.map_router(|router| router.layer(axum::middleware::from_fn(named)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_without_variable_is_found_by_number() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\n:x:7:7::/:\nbroken\nann:x:1000:1000:Ann:/home/ann:/bin/sh\n";
        assert_eq!(user_in(users, 0).as_deref(), Some("root"));
        assert_eq!(user_in(users, 1000).as_deref(), Some("ann"));
        assert_eq!((user_in(users, 7), user_in(users, 1), user_in("", 0)), (None, None, None));
        assert_ne!(local().principal, "local:");
    }
}
