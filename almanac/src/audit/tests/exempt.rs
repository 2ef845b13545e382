//! Routes that the test of all routes leaves out, with the reason.

const HAS_ITEM: &str = "it says who has an item of a review for a while, and changes no event";

/// What changes something and has no record, with the reason.
pub(super) const EXEMPT: [(&str, &str, &str); 4] = [
    ("POST", "/mcp", "it calls operations that only read"),
    (
        "POST",
        "/v1/counters/{type}/{entity}/{counter}",
        "it counts, as events do, and keeps its latest changes itself",
    ),
    ("POST", "/v1/users/{user}/seen", "it says what a user has read, and changes nothing for others"),
    ("POST", "/v1/workspaces/{category}/{name}/reviews/next", HAS_ITEM),
];

/// What is tried by another test, since it ends what the steps are about, needs a session, an item of a review or an outcome that was decided, or may be done once at a time.
pub(super) const ELSEWHERE: [(&str, &str); 7] = [
    ("POST", "/v1/workspaces/{category}/{name}/outcomes/rematch"),
    ("POST", "/v1/workspaces/{category}/{name}/reviews/answers"),
    ("DELETE", "/v1/session"),
    ("DELETE", "/v1/sessions/{principal}"),
    ("DELETE", "/v1/users/{user}"),
    ("DELETE", "/v1/releases/{release}"),
    ("DELETE", "/v1/workspaces/{category}/{name}"),
];
