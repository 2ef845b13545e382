//! Arguments and blocks against the schema: what there is, what is missing, and of what kind.

use std::collections::{BTreeMap, BTreeSet};

use hcl_edit::{
    expr::Expression,
    structure::{Block, Body, Structure},
};

use crate::{
    code::{Fault, File, Module, Project, label},
    schema::{Kind, Type, schema},
    values::kind,
};

/// What every resource takes, beside what the provider knows.
const META_ARGUMENTS: [&str; 4] = ["count", "for_each", "depends_on", "provider"];

/// Everything that the schema finds wrong.
pub(crate) fn check(project: &Project) -> Vec<Fault> {
    let mut faults = Vec::new();
    for module in &project.modules {
        let mut seen = BTreeSet::new();
        for kind in ["resource", "data"] {
            for (file, block) in module.blocks(kind) {
                let (name, id) = (label(block, 0), label(block, 1));
                if !seen.insert((kind, name, id)) {
                    faults.push(file.fault(block, format!("there are two of {name}.{id}")));
                }
                match schema().get(kind, name) {
                    Some(known) => Check { module, file, name, faults: &mut faults }.body(block, &block.body, known, true),
                    None => faults.push(file.fault(block, format!("there is no {kind} type `{name}` in the schema (does it exist? then run schema/extract)"))),
                }
            }
        }
        for (file, block) in module.blocks("module") {
            called(project, module, file, block, &mut faults);
        }
        for (file, block) in module.blocks("variable") {
            variable(file, block, &mut faults);
        }
        for (file, block) in module.blocks("output") {
            described(file, block, "value", &mut faults);
        }
    }
    faults
}

struct Check<'a> {
    module: &'a Module,
    file: &'a File,
    name: &'a str,
    faults: &'a mut Vec<Fault>,
}

impl Check<'_> {
    /// Checks the body of `owner`: a resource, or a block in one.
    fn body(&mut self, owner: &Block, body: &Body, known: &Type, is_top: bool) {
        let mut blocks = BTreeMap::<&str, usize>::new();
        for structure in body.iter() {
            match structure {
                Structure::Attribute(attribute) => {
                    let name = attribute.key.as_str();
                    match known.arguments.get(name) {
                        Some(argument) => {
                            let (found, wanted) = (&attribute.value, argument.kind);
                            if let Some(what) = wanted.and_then(|wanted| mismatch(self.module, found, wanted))
                            {
                                self.fault(found, format!("`{name}` of {} {what}", self.name));
                            }
                        }
                        None if is_top && META_ARGUMENTS.contains(&name) => {}
                        None if known.blocks.contains_key(name) => {
                            self.fault(
                                &attribute.key,
                                format!("`{name}` of {} is a block, not an argument", self.name),
                            );
                        }
                        None => self.fault(&attribute.key, format!("{} has no argument `{name}`", self.name)),
                    }
                }
                Structure::Block(block) => self.block(block, known, is_top, &mut blocks),
            }
        }
        for (name, argument) in &known.arguments {
            if argument.is_required && !body.has_attribute(name) {
                self.fault(owner, format!("{} needs `{name}`", self.name));
            }
        }
        for (name, block) in &known.blocks {
            let count = blocks.get(name.as_str()).copied().unwrap_or(0);
            if block.is_required && count == 0 {
                self.fault(owner, format!("{} needs a block `{name}`", self.name));
            }
            if block.is_single && count > 1 {
                self.fault(owner, format!("{} may have one block `{name}` only", self.name));
            }
        }
    }

    fn block<'b>(
        &mut self,
        block: &'b Block,
        known: &Type,
        is_top: bool,
        blocks: &mut BTreeMap<&'b str, usize>,
    ) {
        let is_dynamic = block.has_ident("dynamic");
        let name = if is_dynamic { label(block, 0) } else { block.ident.as_str() };
        if name == "lifecycle" && is_top {
            return self.lifecycle(block, known);
        }
        let Some(inner) = known.blocks.get(name) else {
            return self.fault(block, format!("{} has no block `{name}`", self.name));
        };
        *blocks.entry(name).or_default() += 1;
        if !is_dynamic {
            return self.body(block, &block.body, inner, false);
        }
        if !block.body.has_attribute("for_each") {
            self.fault(block, format!("the dynamic block `{name}` needs `for_each`"));
        }
        match block.body.get_blocks("content").next() {
            Some(content) => self.body(content, &content.body, inner, false),
            None => self.fault(block, format!("the dynamic block `{name}` needs a block `content`")),
        }
    }

    /// What is ignored must be an argument.
    fn lifecycle(&mut self, block: &Block, known: &Type) {
        let ignored = block.body.get_attribute("ignore_changes").and_then(|one| one.value.as_array());
        for name in ignored.into_iter().flat_map(|array| array.iter()) {
            let text = name.to_string();
            if !known.arguments.contains_key(text.trim()) && !known.blocks.contains_key(text.trim()) {
                self.fault(name, format!("{} has no argument `{}` to ignore", self.name, text.trim()));
            }
        }
    }

    fn fault(&mut self, node: &dyn hcl_edit::Span, what: String) {
        self.faults.push(self.file.fault(node, what));
    }
}

/// Why a value is not of the kind that is wanted, if it surely is not. Terraform makes strings of
/// numbers and numbers of strings where that is possible.
fn mismatch(module: &Module, found: &Expression, wanted: Kind) -> Option<String> {
    let found_kind = kind(module, found)?;
    let literal = found.as_str();
    let fits = match (found_kind, wanted) {
        (found, wanted) if found == wanted => true,
        (Kind::Number | Kind::Bool, Kind::String) => true,
        (Kind::String, Kind::Number) => literal.is_none_or(|text| text.parse::<f64>().is_ok()),
        (Kind::String, Kind::Bool) => literal.is_none_or(|text| ["true", "false"].contains(&text)),
        _ => false,
    };
    (!fits).then(|| format!("takes {}, not {}", wanted.name(), found_kind.name()))
}

/// A call of a module: its variables, and no others.
fn called(project: &Project, caller: &Module, file: &File, block: &Block, faults: &mut Vec<Fault>) {
    let Some(module) = project.called(caller, block) else {
        return faults.push(file.fault(block, "there is no module at this source"));
    };
    for attribute in block.body.attributes() {
        let name = attribute.key.as_str();
        if name == "source" || META_ARGUMENTS.contains(&name) {
            continue;
        }
        let Some((_, variable)) = module.block("variable", &[name]) else {
            faults.push(file.fault(&attribute.key, format!("the module has no variable `{name}`")));
            continue;
        };
        let wanted = variable.body.get_attribute("type").and_then(|one| Kind::of(&one.value.to_string()));
        if let Some(what) = wanted.and_then(|wanted| mismatch(caller, &attribute.value, wanted)) {
            faults.push(file.fault(&attribute.value, format!("the variable `{name}` {what}")));
        }
        let fields = variable.body.get_attribute("type").map(|one| one.value.to_string()).unwrap_or_default();
        for (key, _) in attribute.value.as_object().into_iter().flat_map(|object| object.iter()) {
            let key = key.as_ident().map_or("", |key| key.as_str());
            if fields.trim_start().starts_with("object") && !fields.contains(&format!(" {key} ")) {
                faults.push(
                    file.fault(&attribute.value, format!("the variable `{name}` has no field `{key}`")),
                );
            }
        }
    }
    for (_, variable) in module.blocks("variable") {
        let name = label(variable, 0);
        if !variable.body.has_attribute("default") && !block.body.has_attribute(name) {
            faults.push(file.fault(block, format!("the module needs `{name}`")));
        }
    }
}

fn variable(file: &File, block: &Block, faults: &mut Vec<Fault>) {
    described(file, block, "type", faults);
    for validation in block.body.get_blocks("validation") {
        for needed in ["condition", "error_message"] {
            if !validation.body.has_attribute(needed) {
                faults.push(file.fault(validation, format!("a validation needs `{needed}`")));
            }
        }
    }
}

fn described(file: &File, block: &Block, also: &str, faults: &mut Vec<Fault>) {
    for needed in ["description", also] {
        if !block.body.has_attribute(needed) {
            let what = format!("the {} `{}` needs `{needed}`", block.ident.as_str(), label(block, 0));
            faults.push(file.fault(block, what));
        }
    }
}
