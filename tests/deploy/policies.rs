//! The policies of terraform, as IAM reads them.

use hcl_edit::structure::{Block, Body};

use crate::{
    code::{Fault, Module, Project, label},
    rules::bodies,
    schema::schema,
    values::attribute,
};

/// The table, as policies name it.
pub(crate) const TABLE: &str = "${aws_dynamodb_table.this.arn}";

/// One statement that allows something.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) actions: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) conditions: Vec<Condition>,
}

/// What must hold.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) test: String,
    pub(crate) variable: String,
    pub(crate) values: Vec<String>,
}

/// A call: an action on a resource, with the partition keys that it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) action: String,
    pub(crate) resource: String,
    pub(crate) leading_keys: Vec<String>,
}

impl Statement {
    /// Whether it allows `call`.
    pub(crate) fn allows(&self, call: &Call) -> bool {
        self.actions.iter().any(|action| like(action, &call.action))
            && self.resources.iter().any(|resource| like(resource, &call.resource))
            && self.conditions.iter().all(|condition| condition.holds(call))
    }
}

impl Condition {
    /// `ForAllValues:` holds when nothing is named as well, as IAM has it.
    fn holds(&self, call: &Call) -> bool {
        let is_known = self.test == "ForAllValues:StringLike" && self.variable == "dynamodb:LeadingKeys";
        is_known && call.leading_keys.iter().all(|key| self.values.iter().any(|value| like(value, key)))
    }
}

/// Whether `text` is like `pattern`, in which `*` is any text and `?` any character.
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

/// The statements of a policy document.
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
        actions: texts(body, "actions"),
        resources: texts(body, "resources"),
        conditions: body.get_blocks("condition").map(|block| condition(&block.body)).collect(),
    };
    bodies(block, "statement").into_iter().map(parse).collect()
}

/// Everything that is wrong with policies: actions that do not exist, rights without a bound, and
/// conditions that an action does not know (IAM would then never, or always, allow it).
pub(crate) fn check(project: &Project) -> Vec<Fault> {
    let mut faults = Vec::new();
    for module in &project.modules {
        let documents =
            module.blocks("data").filter(|(_, block)| label(block, 0) == "aws_iam_policy_document");
        for (file, block) in documents {
            for (statement, body) in statements(module, block).iter().zip(bodies(block, "statement")) {
                let at = |name: &str| body.get_attribute(name).map(|one| one.value.clone());
                let mut fault = |name: &str, what: String| match at(name) {
                    Some(node) => faults.push(file.fault(&node, what)),
                    None => faults.push(file.fault(block, what)),
                };
                for action in &statement.actions {
                    let Some(known) = schema().action(action) else {
                        fault("actions", format!("IAM has no action `{action}`"));
                        continue;
                    };
                    if !known.resources.is_empty() && statement.resources.iter().any(|one| one == "*") {
                        fault(
                            "resources",
                            format!("`{action}` can be bound to a resource, so `*` is too much"),
                        );
                    }
                    for condition in &statement.conditions {
                        let variable = &condition.variable;
                        if !variable.starts_with("aws:") && !known.conditions.contains(variable) {
                            fault("actions", format!("`{action}` does not know the condition `{variable}`"));
                        }
                    }
                }
                for condition in &statement.conditions {
                    let operator =
                        condition.test.trim_start_matches("ForAllValues:").trim_start_matches("ForAnyValue:");
                    if !["StringEquals", "StringLike", "ArnEquals", "ArnLike", "Bool"].contains(&operator) {
                        fault("actions", format!("IAM has no condition `{}`", condition.test));
                    }
                }
            }
        }
    }
    faults
}
