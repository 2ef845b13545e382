//! Policies of terraform, in the interpretation of IAM.

use hcl_edit::structure::{Block, Body};

use crate::{code::Module, rules::bodies, values::attribute};

/// Name of the table in policies.
pub(crate) const TABLE: &str = "${aws_dynamodb_table.this.arn}";

/// Statement that allows or denies calls.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) denies: bool,
    pub(crate) actions: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) conditions: Vec<Condition>,
}

/// Condition of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) test: String,
    pub(crate) variable: String,
    pub(crate) values: Vec<String>,
}

/// Call: an action on a resource, with the partition keys that it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) action: String,
    pub(crate) resource: String,
    pub(crate) leading_keys: Vec<String>,
}

/// Transaction. IAM is asked for each of its actions, and it is not documented whether with the key of that write or with the
/// keys of all: so one statement must allow all of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Whole {
    pub(crate) actions: Vec<String>,
    pub(crate) leading_keys: Vec<String>,
}

/// Returns whether a policy allows `call`: a statement does, and none denies it.
pub(crate) fn allowed(policy: &[Statement], call: &Call) -> bool {
    let speaks = |denies: bool| policy.iter().any(|one| one.denies == denies && one.is_of(call));
    speaks(false) && !speaks(true)
}

/// Returns whether one statement of a policy allows every action of a transaction, each with all of its keys, and none denies
/// one.
pub(crate) fn allowed_whole(policy: &[Statement], whole: &Whole) -> bool {
    let calls: Vec<Call> = whole
        .actions
        .iter()
        .map(|action| Call {
            action: action.clone(),
            resource: TABLE.to_owned(),
            leading_keys: whole.leading_keys.clone(),
        })
        .collect();
    let covers = |one: &Statement| !one.denies && calls.iter().all(|call| one.is_of(call));
    policy.iter().any(covers) && calls.iter().all(|call| allowed(policy, call))
}

impl Statement {
    /// Returns whether it applies to `call`.
    pub(crate) fn is_of(&self, call: &Call) -> bool {
        self.actions.iter().any(|action| like(action, &call.action))
            && self.resources.iter().any(|resource| like(resource, &call.resource))
            && self.conditions.iter().all(|condition| condition.holds(call))
    }
}

impl Condition {
    /// `ForAllValues:` also holds if no key is named, as in IAM.
    fn holds(&self, call: &Call) -> bool {
        if self.test == "Null" && self.values == ["false"] {
            return self.variable == "dynamodb:LeadingKeys" && !call.leading_keys.is_empty();
        }
        let is_known = self.test == "ForAllValues:StringLike" && self.variable == "dynamodb:LeadingKeys";
        is_known && call.leading_keys.iter().all(|key| self.values.iter().any(|value| like(value, key)))
    }
}

/// Returns whether `text` matches `pattern`, in which `*` is any text and `?` any character.
pub(crate) fn like(pattern: &str, text: &str) -> bool {
    let mut pattern_chars = pattern.chars();
    match pattern_chars.next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = pattern_chars.as_str();
            text.char_indices().map(|(at, _)| &text[at..]).chain([""]).any(|tail| like(rest, tail))
        }
        Some(one) => {
            let mut text_chars = text.chars();
            let first = text_chars.next();
            first.is_some_and(|first| one == '?' || first == one)
                && like(pattern_chars.as_str(), text_chars.as_str())
        }
    }
}

/// Statements of a policy document.
pub(crate) fn policy(module: &Module, name: &str) -> Vec<Statement> {
    let (_, block) =
        module.block("data", &["aws_iam_policy_document", name]).expect("the policy document is there");
    statements(module, block)
}

fn statements(module: &Module, block: &Block) -> Vec<Statement> {
    let texts = |body: &Body, name: &str| {
        let value = attribute(module, body, name);
        value.and_then(|value| value.texts()).unwrap_or_else(|| {
            let expression = body.get_attribute(name).map(|one| one.value.to_string());
            expression.map(|one| format!("${{{}}}", one.trim())).into_iter().collect()
        })
    };
    let text = |body: &Body, name: &str| {
        attribute(module, body, name).and_then(|value| value.text()).unwrap_or_default()
    };
    let condition = |body: &Body| Condition {
        test: text(body, "test"),
        variable: text(body, "variable"),
        values: texts(body, "values"),
    };
    let parse = |body: &Body| Statement {
        denies: text(body, "effect") == "Deny",
        actions: texts(body, "actions"),
        resources: texts(body, "resources"),
        conditions: body.get_blocks("condition").map(|block| condition(&block.body)).collect(),
    };
    bodies(block, "statement").into_iter().map(parse).collect()
}
