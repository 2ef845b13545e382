//! In whose name a request or a command changes something.

use std::{env, sync::Arc};

use axum::{extract::Request, middleware::Next, response::Response};
use log::audit::{Author, by};
use web::{Asker, Routes};

/// The variables by which systems tell a program whose it is.
const USERS: [&str; 3] = ["USER", "LOGNAME", "USERNAME"];

/// The most characters of the name of a user of this machine that are recorded.
const MAX_USER_CHARS: usize = 64;

/// The user of this machine, in whose name a command works on the table.
pub(crate) fn local() -> Arc<Author> {
    let named = USERS.iter().find_map(|name| env::var(name).ok().filter(|user| !user.is_empty()));
    let user: String = named.as_deref().unwrap_or("unknown").chars().take(MAX_USER_CHARS).collect();
    Arc::new(Author::named(format!("local:{user}")))
}

/// The caller of a request, in whose name it is worked on.
fn caller(asker: &Asker) -> Author {
    let known = asker.principal.as_deref().map_or_else(Author::anonymous, Author::named);
    let request = Some(asker.request_id.as_ref()).filter(|id| !id.is_empty()).map(str::to_owned);
    Author { request, address: asker.address, ..known }
}

/// The routes, whose requests are worked on in the names of their callers. What finds out who calls must come before.
pub(crate) fn in_the_name_of_callers(routes: Routes) -> Routes {
    let named = async |asker: Asker, request: Request, next: Next| -> Response {
        by(Arc::new(caller(&asker)), next.run(request)).await
    };
    routes.map_router(|router| router.layer(axum::middleware::from_fn(named)))
}
