//! Every expression of the module, evaluated by Terraform itself without the provider: resources become
//! locals that have the attributes which the schema knows, and their bodies become outputs.

use std::{collections::BTreeMap, fmt::Write, fs};

use hcl_edit::{
    Span,
    structure::{Block, Body, Structure},
};

use crate::{
    code::{File, Module, Project, label, texts},
    schema::{Kind, Type, schema},
    tool::{GOOD, plan, text, tool},
};

/// What is no value.
const NO_VALUES: [&str; 4] = ["for_each", "count", "depends_on", "provider"];

fn source<'a>(file: &'a File, node: &dyn Span) -> &'a str {
    node.span().map_or("", |span| &file.text[span])
}

/// A body as an object: blocks are lists of objects, dynamic ones as well.
fn object(file: &File, body: &Body) -> String {
    let mut object = "{\n".to_owned();
    let mut blocks = BTreeMap::<&str, Vec<String>>::new();
    for structure in body.iter() {
        match structure {
            Structure::Attribute(attribute) if !NO_VALUES.contains(&attribute.key.as_str()) => {
                let (key, value) = (attribute.key.as_str(), source(file, &attribute.value));
                writeln!(object, "{key} = ({value})").unwrap();
            }
            Structure::Attribute(_) => {}
            Structure::Block(block) if block.has_ident("lifecycle") => {}
            Structure::Block(block) if block.has_ident("dynamic") => {
                let name = label(block, 0);
                let each = source(file, &block.body.get_attribute("for_each").unwrap().value);
                let content = self::object(file, &block.body.get_blocks("content").next().unwrap().body);
                let all =
                    format!("[for {name} in [for k, v in {each} : {{ key = k, value = v }}] : {content}]");
                blocks.entry(name).or_default().push(all);
            }
            Structure::Block(block) => {
                let one = format!("[{}]", self::object(file, &block.body));
                blocks.entry(block.ident.as_str()).or_default().push(one);
            }
        }
    }
    for (name, lists) in blocks {
        writeln!(object, "{name} = concat({})", lists.join(", ")).unwrap();
    }
    object + "}"
}

/// As many of `one` as a block says.
fn many(file: &File, block: &Block, one: &str) -> String {
    let value = |name| Some(source(file, &block.body.get_attribute(name)?.value));
    if let Some(each) = value("for_each") {
        return format!(
            "{{ for k, v in {each} : k => [for each in [{{ key = k, value = v }}] : {one}][0] }}"
        );
    }
    match value("count") {
        Some(count) => format!("[for count in [for i in range({count}) : {{ index = i }}] : {one}]"),
        None => one.to_owned(),
    }
}

/// Something in place of each attribute.
fn attributes(known: &Type) -> String {
    let value = |name: &str| match known.arguments.get(name).and_then(|argument| argument.kind) {
        Some(Kind::Number) => "1",
        Some(Kind::Bool) => "true",
        Some(Kind::List) => "[\"something\"]",
        Some(Kind::Map) => "{}",
        Some(Kind::String) | None => "\"something\"",
    };
    let names = known.arguments.keys().chain(known.attributes());
    let lines: String = names.map(|name| format!("{name} = {}\n", value(name))).collect();
    format!("{{\n{lines}}}")
}

/// The module without a resource in it.
fn without_resources(module: &Module) -> String {
    let mut all = String::new();
    for kind in ["variable", "locals", "output"] {
        for (file, block) in module.blocks(kind) {
            writeln!(all, "{}\n", source(file, block)).unwrap();
        }
    }
    let mut names = Vec::new();
    for kind in ["resource", "data"] {
        for (file, block) in module.blocks(kind) {
            let (type_, id) = (label(block, 0), label(block, 1));
            let stub = format!("{kind}__{type_}__{id}");
            let known = schema().get(kind, type_).unwrap();
            writeln!(all, "locals {{\n{stub} = {}\n}}\n", many(file, block, &attributes(known))).unwrap();
            let body = many(file, block, &object(file, &block.body));
            writeln!(all, "output \"{stub}\" {{\nvalue = {body}\n}}\n").unwrap();
            let prefix = if kind == "data" { "data." } else { "" };
            names.push((format!("{prefix}{type_}.{id}"), format!("local.{stub}")));
        }
    }
    // Names of data first: those of resources are a part of some.
    names.reverse();
    names.into_iter().fold(all, |text, (name, stub)| replaced(&text, &name, &stub))
}

/// `text` with `stub` for `name`, where that is a whole reference.
fn replaced(text: &str, name: &str, stub: &str) -> String {
    let is_part = |one: char| one.is_alphanumeric() || one == '_' || one == '-';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        let is_whole = !before.ends_with(|one| is_part(one) || one == '.') && !after.starts_with(is_part);
        out.push_str(before);
        out.push_str(if is_whole { stub } else { name });
        rest = after;
    }
    out + rest
}

#[test]
fn terraform_evaluates_every_expression() {
    let Some(tool) = tool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let write = |project: &Project| {
        fs::write(folder.path().join("main.tf"), without_resources(project.almanac())).unwrap();
    };
    write(&Project::read());
    for values in [&[][..], &GOOD] {
        let output = plan(&tool, folder.path(), values);
        assert!(output.status.success(), "{}", text(&output));
    }

    let mut copy = texts();
    let dashboard = copy.get_mut("terraform/modules/almanac/dashboard.tf").unwrap();
    *dashboard = dashboard.replace("graph.series", "graph.lines");
    write(&Project::parse(copy).unwrap());
    let output = plan(&tool, folder.path(), &[]);
    assert!(text(&output).contains("does not have an attribute named \"lines\""), "{}", text(&output));
}
