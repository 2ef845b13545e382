//! References: to variables, locals, resources, data, modules and their outputs, that must exist.

use hcl_edit::{
    expr::{Expression, ForExpr, FuncCall, Traversal, TraversalOperator},
    structure::{Attribute, Block, Structure},
    visit::{self, Visit},
};

use crate::{
    code::{Fault, File, Module, Project, label},
    schema::schema,
};

/// The functions of Terraform that are used or likely to be; another one is a mistake, or to be added.
const FUNCTIONS: [&str; 40] = [
    "abs",
    "alltrue",
    "anytrue",
    "can",
    "ceil",
    "cidrnetmask",
    "cidrsubnet",
    "coalesce",
    "compact",
    "concat",
    "contains",
    "distinct",
    "endswith",
    "flatten",
    "floor",
    "format",
    "join",
    "jsonencode",
    "keys",
    "length",
    "lookup",
    "lower",
    "max",
    "merge",
    "min",
    "optional",
    "range",
    "regex",
    "replace",
    "setunion",
    "sort",
    "split",
    "startswith",
    "toset",
    "tostring",
    "trimspace",
    "try",
    "upper",
    "values",
    "zipmap",
];

/// Every reference that leads nowhere.
pub(crate) fn check(project: &Project) -> Vec<Fault> {
    let mut faults = Vec::new();
    for module in &project.modules {
        for file in &module.files {
            let mut search = Search { project, module, file, scope: Vec::new(), faults: Vec::new() };
            search.visit_body(&file.body);
            faults.extend(search.faults);
        }
    }
    faults
}

/// A resource that a name in scope stands for.
type Meant = Option<(&'static str, String)>;

struct Search<'a> {
    project: &'a Project,
    module: &'a Module,
    file: &'a File,
    /// Names that hold only here, and the resource that each stands for, where it is known.
    scope: Vec<(String, Meant)>,
    faults: Vec<Fault>,
}

impl Search<'_> {
    fn fault(&mut self, node: &dyn hcl_edit::Span, what: String) {
        self.faults.push(self.file.fault(node, what));
    }

    fn scoped(&mut self, names: Vec<(String, Meant)>, inside: impl FnOnce(&mut Self)) {
        let before = self.scope.len();
        self.scope.extend(names);
        inside(self);
        self.scope.truncate(before);
    }

    fn in_scope(&self, name: &str) -> Option<&Meant> {
        self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, meant)| meant)
    }

    fn reference(&mut self, node: &Traversal, first: &str) {
        let names: Vec<Option<&str>> =
            node.operators.iter().map(|operator| get_attr(operator.value())).collect();
        let name = |at: usize| names.get(at).copied().flatten();
        let exists = |found: bool, what: String| (!found).then_some(what);
        let wrong = match first {
            "var" => name(0).and_then(|var| {
                exists(
                    self.module.block("variable", &[var]).is_some(),
                    format!("there is no variable `{var}`"),
                )
            }),
            "local" => name(0).and_then(|local| {
                exists(self.module.local(local).is_some(), format!("there is no local `{local}`"))
            }),
            "module" => self.output(name(0).unwrap_or_default(), name(1)),
            "data" => {
                self.resource("data", name(0).unwrap_or_default(), name(1).unwrap_or_default(), node, 2)
            }
            "path" => {
                exists(matches!(name(0), Some("module" | "root" | "cwd")), "there is no such path".into())
            }
            "terraform" => exists(name(0) == Some("workspace"), "there is only terraform.workspace".into()),
            scoped if self.in_scope(scoped).is_some() => self.attribute(scoped, name(0)),
            resource if resource.starts_with("aws_") => {
                self.resource("resource", resource, name(0).unwrap_or_default(), node, 1)
            }
            other => Some(format!("`{other}` stands for nothing here")),
        };
        if let Some(what) = wrong {
            self.fault(node, what);
        }
    }

    fn attribute(&self, scoped: &str, name: Option<&str>) -> Option<String> {
        let (kind, type_) = self.in_scope(scoped)?.as_ref()?;
        let known = schema().get(kind, type_)?;
        let name = name?;
        (!known.has_attribute(name)).then(|| format!("{type_} has no attribute `{name}`"))
    }

    fn output(&self, name: &str, output: Option<&str>) -> Option<String> {
        let Some((_, block)) = self.module.block("module", &[name]) else {
            return Some(format!("there is no module `{name}`"));
        };
        let (module, output) = (self.project.called(self.module, block)?, output?);
        module
            .block("output", &[output])
            .is_none()
            .then(|| format!("the module `{name}` has no output `{output}`"))
    }

    /// What is wrong with a reference to a resource, of which the operators from `at` on are what is read of it.
    fn resource(
        &self,
        kind: &'static str,
        type_: &str,
        id: &str,
        node: &Traversal,
        at: usize,
    ) -> Option<String> {
        let Some((_, block)) = self.module.block(kind, &[type_, id]) else {
            return Some(format!("there is no {kind} {type_}.{id}"));
        };
        let is_many = block.body.has_attribute("for_each") || block.body.has_attribute("count");
        let operators: Vec<_> = node.operators.iter().skip(at).map(|operator| operator.value()).collect();
        let (name, is_indexed) = match operators.as_slice() {
            [] => return None,
            [first, ..] if get_attr(first).is_some() => (get_attr(first), false),
            [_, second, ..] => (get_attr(second), true),
            [_] => (None, true),
        };
        if is_many != is_indexed {
            let what = if is_many { "is several: say which" } else { "is one, and has no index" };
            return Some(format!("{type_}.{id} {what}"));
        }
        let known = schema().get(kind, type_)?;
        let name = name?;
        (!known.has_attribute(name)).then(|| format!("{type_} has no attribute `{name}`"))
    }

    /// The resource type of an expression that names all of a resource, for the names of a loop over it.
    fn all_of(&self, collection: &Expression) -> Meant {
        let Expression::Traversal(node) = collection else { return None };
        let type_ = node.expr.as_variable()?.as_str();
        (type_.starts_with("aws_") && node.operators.len() == 1).then(|| ("resource", type_.to_owned()))
    }
}

fn get_attr(operator: &TraversalOperator) -> Option<&str> {
    match operator {
        TraversalOperator::GetAttr(name) => Some(name.as_str()),
        _ => None,
    }
}

impl Visit for Search<'_> {
    fn visit_block(&mut self, node: &Block) {
        let mut names = Vec::new();
        let mut add = |name: &str| names.push((name.to_owned(), None));
        match node.ident.as_str() {
            "terraform" => return,
            "dynamic" => add(label(node, 0)),
            "resource" | "data" | "module" => {
                if node.body.has_attribute("for_each") {
                    add("each");
                }
                if node.body.has_attribute("count") {
                    add("count");
                }
            }
            _ => {}
        }
        self.scoped(names, |search| {
            for structure in node.body.iter() {
                match structure {
                    // The names of types, and of arguments, are no references.
                    Structure::Attribute(attribute)
                        if node.has_ident("variable") && attribute.has_key("type") => {}
                    Structure::Attribute(attribute) if attribute.has_key("ignore_changes") => {}
                    Structure::Attribute(attribute) => search.visit_attr(attribute),
                    Structure::Block(block) => search.visit_block(block),
                }
            }
        });
    }

    fn visit_attr(&mut self, node: &Attribute) {
        self.visit_expr(&node.value);
    }

    fn visit_expr(&mut self, node: &Expression) {
        match node {
            Expression::Traversal(traversal) => {
                match traversal.expr.as_variable() {
                    Some(first) => self.reference(traversal, first.as_str()),
                    None => self.visit_expr(&traversal.expr),
                }
                for operator in &traversal.operators {
                    if let TraversalOperator::Index(index) = operator.value() {
                        self.visit_expr(index);
                    }
                }
            }
            Expression::Variable(name) if self.in_scope(name.as_str()).is_none() => {
                self.fault(name, format!("`{}` stands for nothing here", name.as_str()));
            }
            // The keys of an object are names, unless they are calculated.
            Expression::Object(object) => {
                for (key, value) in object.iter() {
                    if let Some(key) = key.as_expr().filter(|key| !key.is_variable()) {
                        self.visit_expr(key);
                    }
                    self.visit_expr(value.expr());
                }
            }
            _ => visit::visit_expr(self, node),
        }
    }

    fn visit_for_expr(&mut self, node: &ForExpr) {
        self.visit_expr(&node.intro.collection_expr);
        let meant = self.all_of(&node.intro.collection_expr);
        let mut names = vec![(node.intro.value_var.as_str().to_owned(), meant)];
        names.extend(node.intro.key_var.as_ref().map(|key| (key.as_str().to_owned(), None)));
        self.scoped(names, |search| {
            node.key_expr.iter().for_each(|key| search.visit_expr(key));
            search.visit_expr(&node.value_expr);
            node.cond.iter().for_each(|condition| search.visit_expr(&condition.expr));
        });
    }

    fn visit_func_call(&mut self, node: &FuncCall) {
        let name = node.name.name.as_str();
        if !FUNCTIONS.contains(&name) {
            self.fault(node, format!("there is no function `{name}`"));
        }
        node.args.iter().for_each(|argument| self.visit_expr(argument));
    }
}
