//! Routes that the test of all routes leaves out, with the reason.

const HAS_ITEM: &str = "it says who has an item of a review for a while, and changes no event";

/// Routes that change data and leave no record, with the reason.
pub(super) const EXEMPT: [(&str, &str, &str); 4] = [
    (
        "POST",
        "/v1/counters/{type}/{entity}/{counter}",
        "it counts, as events do, and keeps its latest changes itself",
    ),
    ("POST", "/v1/users/{user}/seen", "it says what a user has read, and changes nothing for others"),
    ("POST", "/v1/workspaces/{category}/{name}/reviews/next", HAS_ITEM),
    ("POST", "/v1/workspaces/{workspace}/reviews/next", HAS_ITEM),
];

/// Routes covered by other tests: they end the subject of the steps, need a session, an item of a review or a decided outcome, or
/// run only once at a time.
pub(super) const ELSEWHERE: [(&str, &str); 12] = [
    ("POST", "/v1/workspaces/{workspace}/erasures"),
    ("POST", "/v1/workspaces/{category}/{name}/outcomes/resettle"),
    ("POST", "/v1/workspaces/{workspace}/outcomes/resettle"),
    ("POST", "/v1/workspaces/{category}/{name}/reviews/answers"),
    ("POST", "/v1/workspaces/{workspace}/reviews/answers"),
    ("DELETE", "/v1/session"),
    ("DELETE", "/v1/sessions/{principal}"),
    ("DELETE", "/v1/sessions/{principal}/{session}"),
    ("DELETE", "/v1/users/{user}"),
    ("DELETE", "/v1/releases/{release}"),
    ("DELETE", "/v1/workspaces/{category}/{name}"),
    ("DELETE", "/v1/workspaces/{workspace}"),
];
