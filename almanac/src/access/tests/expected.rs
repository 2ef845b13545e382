//! Expected results of calls, derived from the rights of roles alone.

use axum::http::StatusCode;
use catalog::Role;
use event::Right;
use tests::engine::Engine;
use web::{About, Need};

use super::{Given, Held, Target};

/// Expected refusal for a need; `None`, if the need is met.
pub(super) fn refused(need: &Need, target: Target, given: Given) -> Option<StatusCode> {
    let has = |right: Right| given.is_some_and(|(role, _)| role.rights().has(right));
    let held = given.map(|(_, held)| held);
    let on_server = held == Some(Held::Server);
    let is_category = matches!(
        need.about,
        About::Entity("category", _) | About::ParentOf("workspace", _) | About::CategoryOf(_)
    );
    let verdict = |sees: bool, may: bool| match (sees, may) {
        (_, true) => None,
        (true, false) => Some(StatusCode::FORBIDDEN),
        (false, false) => Some(StatusCode::NOT_FOUND),
    };
    match (need.about, target) {
        // The body of the test gives no other name.
        (About::Caller | About::Visible | About::Renamed(..), _) => None,
        (About::Server | About::ServerUnless(_), _) => verdict(true, on_server && has(need.right)),
        // A category that is not there can be made by a caller with that right on the server.
        (About::CategoryOf(_) | About::Own(..), Target::Nothing) => {
            verdict(false, on_server && has(need.right))
        }
        // The callers are users.
        (About::Own(None | Some("user"), _), Target::Own) => None,
        (About::Own(..), _) => verdict(on_server && has(Right::Read), on_server && has(need.right)),
        (_, Target::Nothing) => Some(StatusCode::NOT_FOUND),
        (_, Target::Other) => verdict(on_server, on_server && has(need.right)),
        (_, Target::Own) => {
            let sees = held.is_some() && !(is_category && held == Some(Held::Workspace));
            verdict(sees, sees && has(need.right))
        }
    }
}

/// Returns whether a caller is tested: all are on SQLite, some on the slower engine. `ALMANAC_ACCESS_CALLERS=all` selects all on
/// both.
pub(super) fn is_tried(engine: Engine, given: Given) -> bool {
    match engine {
        Engine::Sqlite => true,
        Engine::DynamodbLocal if std::env::var("ALMANAC_ACCESS_CALLERS").is_ok_and(|who| who == "all") => {
            true
        }
        Engine::DynamodbLocal => matches!(
            given,
            None | Some(
                (Role::Writer | Role::Admin, Held::Workspace) | (Role::Reader, Held::Category | Held::Server)
            )
        ),
    }
}
