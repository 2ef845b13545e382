//! Comparison of documents with the files: the tables of `terraform/README.md`, the alarms in `docs/operating.md`, the settings
//! of containers.

use std::{collections::BTreeSet, fs};

use crate::{
    code::{File, Module, Project, label, root},
    rules::{RETENTION, bodies, fargate_memory},
    values::{Value, attribute, evaluate},
};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text(module: &Module, body: &hcl_edit::structure::Body, name: &str) -> String {
    attribute(module, body, name).and_then(|value| value.text()).unwrap_or_default()
}

/// Rows of the table of inputs.
fn inputs(module: &Module) -> Vec<String> {
    let row = |block: &hcl_edit::structure::Block| {
        let default = match block.body.get_attribute("default") {
            Some(default) => format!("`{}`", default.value.to_string().trim()),
            None => "required".to_owned(),
        };
        format!("| `{}` | {default} | {} |", label(block, 0), text(module, &block.body, "description"))
    };
    module.blocks("variable").map(|(_, block)| row(block)).collect()
}

fn outputs(module: &Module) -> Vec<String> {
    let row = |block| format!("| `{}` | {} |", label(block, 0), text(module, &block.body, "description"));
    module.blocks("output").map(|(_, block)| row(block)).collect()
}

#[test]
fn readme_lists_actual_inputs_and_outputs() {
    let project = Project::read();
    let readme = read("terraform/README.md");
    let found = |heading: &str| -> Vec<String> {
        let section = readme.split(&format!("## {heading}\n")).nth(1).unwrap_or_default();
        let section = section.split("\n## ").next().unwrap_or_default();
        section.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect()
    };
    for (heading, rows) in [("Inputs", inputs(project.almanac())), ("Outputs", outputs(project.almanac()))] {
        assert_eq!(found(heading), rows, "the table under {heading} should be\n{}", rows.join("\n"));
    }
}

/// Names of all alarms, after the name of the deployment.
fn alarms(module: &Module) -> BTreeSet<String> {
    alarm_names(module, module.blocks("resource"))
}

/// Names of the alarms among these resources.
fn alarm_names<'a>(
    module: &Module,
    resources: impl Iterator<Item = (&'a File, &'a hcl_edit::structure::Block)>,
) -> BTreeSet<String> {
    let blocks = resources.filter(|(_, block)| label(block, 0) == "aws_cloudwatch_metric_alarm");
    let name = |block: &hcl_edit::structure::Block| {
        let name = text(module, &block.body, "alarm_name");
        name.strip_prefix("${var.name}-")
            .unwrap_or_else(|| panic!("{name} begins with the name of the deployment"))
            .to_owned()
    };
    blocks.map(|(_, block)| name(block)).collect()
}

#[test]
fn operations_guide_describes_every_alarm_and_event() {
    let project = Project::read();
    let module = project.almanac();
    let operations = read("docs/operating.md");
    let section = operations.split("\n## Alarms\n").nth(1).expect("there is a section on alarms");
    let section = section.split("\n## ").next().unwrap_or_default();
    let described: BTreeSet<String> =
        section.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect();
    let events = match evaluate(module, module.local("event_names").unwrap().1) {
        Value::List(names) => names.iter().filter_map(Value::text).collect::<BTreeSet<_>>(),
        other => panic!("{other:?}"),
    };
    let told: BTreeSet<String> = alarms(module).union(&events).cloned().collect();
    assert_eq!(described, told);
    let pages = section.lines().find_map(|line| line.strip_prefix("Pages are ")).unwrap_or_default();
    let pages: BTreeSet<String> = pages.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let is_page = |(_, block): &(_, &hcl_edit::structure::Block)| {
        let actions = block.body.get_attribute("alarm_actions").map(|actions| actions.value.to_string());
        actions.is_some_and(|actions| actions.trim() == "local.page_topics")
    };
    assert_eq!(pages, alarm_names(module, module.blocks("resource").filter(is_page)));
    for part in section.split("\n### ").skip(1) {
        let name = part.lines().next().unwrap_or_default();
        let meaning = part.lines().nth(2).unwrap_or_default();
        assert!(
            !meaning.is_empty() && !meaning.starts_with("**Do.**") && part.contains("\n\n**Do.** "),
            "{name} says what it means and what to do"
        );
    }
    for (_, block) in
        module.blocks("resource").filter(|(_, block)| label(block, 0) == "aws_cloudwatch_metric_alarm")
    {
        let anchor = text(module, &block.body, "alarm_name").replace("${var.name}-", "docs/operating.md#");
        assert!(text(module, &block.body, "alarm_description").contains(&format!("{anchor}.")), "{anchor}");
    }
}

#[test]
fn d4_alarms_watch_what_is_read_and_written() {
    let project = Project::read();
    let module = project.almanac();
    for (alarm, metric, budget) in [
        ("read_budget", "ConsumedReadCapacityUnits", "read_budget_units_per_hour"),
        ("write_budget", "ConsumedWriteCapacityUnits", "write_budget_units_per_hour"),
    ] {
        let (_, block) = module.block("resource", &["aws_cloudwatch_metric_alarm", alarm]).unwrap();
        let [query] = bodies(block, "metric_query.metric")[..] else {
            panic!("{alarm} has one kind of metric")
        };
        assert_eq!(text(module, query, "metric_name"), metric);
        assert_eq!(text(module, query, "stat"), "Sum");
        assert_eq!(attribute(module, query, "period"), Some(Value::Number(3600.0)), "a budget is of an hour");
        assert_eq!(text(module, &block.body, "threshold"), format!("${{var.{budget}}}"));
        assert_eq!(text(module, &block.body, "comparison_operator"), "GreaterThanThreshold");
        // The table and both indexes, by `table_parts`.
        let dynamic = block.body.get_blocks("dynamic").next().unwrap();
        let parts = dynamic.body.get_attribute("for_each").unwrap().value.to_string();
        assert_eq!(parts.trim(), "local.table_parts");
        assert!(block.body.has_attribute("alarm_actions"));
    }
    let dashboard = read("terraform/modules/almanac/dashboard.tf");
    for metric in [
        "ConsumedReadCapacityUnits",
        "ConsumedWriteCapacityUnits",
        "ReadThrottleEvents",
        "LagSeconds",
        "DeadLetters",
    ] {
        assert!(dashboard.contains(&format!("\"{metric}\"")), "the dashboard shows {metric}");
    }
}

#[test]
fn image_is_built_by_script_steps() {
    let (dockerfile, script) = (read("Dockerfile"), read("deploy/image"));
    for step in ["tools", "build", "collect /image", "check /image"] {
        assert!(dockerfile.contains(&format!("deploy/image {step}")), "the Dockerfile runs {step}");
        assert!(
            script.contains(&format!("#   deploy/image {}", step.split(' ').next().unwrap())),
            "{step} is described"
        );
    }
    assert!(script.contains("cargo build --locked"), "it is built from the lock file");
    let version = read("Cargo.toml");
    let version =
        version.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    assert!(dockerfile.contains(&format!("ARG RUST_VERSION={version}\n")), "with the Rust of the workspace");
    for line in ["USER nonroot", "ENTRYPOINT [\"/usr/local/bin/almanac\"]", "VOLUME /data"] {
        assert!(dockerfile.lines().any(|found| found == line), "{line}");
    }
    assert!(
        dockerfile.contains("HEALTHCHECK")
            && dockerfile.contains("CMD [\"/usr/local/bin/almanac\", \"health\"]")
    );
    let ignored = read(".dockerignore");
    let members = read("Cargo.toml");
    let members = members.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    for member in members.split('"').skip(1).step_by(2) {
        assert!(
            ignored.contains(&format!("!{member}\n")),
            ".dockerignore leaves {member} out, which cargo needs"
        );
    }
}

#[test]
fn module_states_the_limits_of_aws() {
    let project = Project::read();
    let module = project.almanac();
    let Value::Map(pairs) = evaluate(module, module.local("fargate_memory").unwrap().1) else {
        panic!("a map")
    };
    assert_eq!(pairs.len(), 7);
    for (cpu, memory) in pairs {
        let wanted: Vec<Value> =
            fargate_memory(cpu.parse().unwrap()).into_iter().map(Value::Number).collect();
        assert_eq!(memory, Value::List(wanted), "{cpu} CPU units");
    }
    let (_, retention) = module.block("variable", &["log_retention_days"]).unwrap();
    let condition = retention.body.get_blocks("validation").next().unwrap();
    let condition = &condition.body.get_attribute("condition").unwrap().value;
    let allowed = evaluate(module, condition.as_func_call().unwrap().args.get(0).unwrap()).texts().unwrap();
    assert_eq!(allowed, RETENTION[1..]);
    let names: BTreeSet<String> =
        evaluate(module, module.local("index_names").unwrap().1).texts().unwrap().into_iter().collect();
    let (_, table) = module.block("resource", &["aws_dynamodb_table", "this"]).unwrap();
    let indexes = bodies(table, "global_secondary_index").into_iter().map(|body| text(module, body, "name"));
    assert_eq!(names, indexes.collect(), "the alarms know every index");
}

/// Settings of containers are known to the binary, and valid.
#[test]
fn containers_get_settings_that_exist() {
    let services = read("terraform/modules/almanac/services.tf");
    let config = read("almanac/src/config/mod.rs");
    let variables: Vec<&str> = services.split('"').filter(|part| part.starts_with("ALMANAC_")).collect();
    assert_eq!(variables.len(), 10, "{variables:?}");
    let access = read("almanac/src/access/mod.rs");
    let listening = read("almanac/src/listening.rs");
    let inputs = read("terraform/modules/almanac/variables.tf");
    let oidc = read("almanac/src/config/oidc.rs");
    // The keys of the input are the settings of the table, and the variables are made of them.
    let settings: Vec<&str> = oidc
        .split('"')
        .filter_map(|part| part.strip_prefix("oidc."))
        .filter(|name| !name.is_empty())
        .collect();
    assert!(
        settings.len() == 10 && inputs.contains(&format!("[\"{}\"]", settings.join("\", \""))),
        "{settings:?}"
    );
    assert!(settings.iter().all(|name| oidc.contains(&format!("\"ALMANAC_OIDC_{}\"", name.to_uppercase()))));
    for variable in variables {
        let is_known = config.contains(&format!("variable: \"{variable}\""))
            || variable == "ALMANAC_OIDC_${upper(name)}"
            || listening.contains(&format!("env = \"{variable}\""))
            || access.contains(&format!("ADMIN_TOKEN: &str = \"{variable}\""));
        assert!(is_known, "there is no setting {variable}");
    }
    let project = Project::read();
    let (_, task) = project.almanac().block("resource", &["aws_ecs_task_definition", "service"]).unwrap();
    let encoded = task.body.get_attribute("container_definitions").unwrap().value.as_func_call().unwrap();
    let containers = encoded.args.get(0).and_then(|list| list.as_array()).unwrap();
    let Some(Value::Map(container)) = containers.get(0).map(|one| evaluate(project.almanac(), one)) else {
        panic!("a container")
    };
    let known = [
        "command",
        "environment",
        "essential",
        "healthCheck",
        "image",
        "logConfiguration",
        "name",
        "portMappings",
        "readonlyRootFilesystem",
        "secrets",
        "stopTimeout",
    ];
    assert_eq!(container.keys().map(String::as_str).collect::<Vec<_>>(), known);
    assert_eq!(container["readonlyRootFilesystem"], Value::Bool(true));
}

#[test]
fn reserved_variables_of_module_are_refused() {
    let project = Project::read();
    let module = project.almanac();
    let (_, reserved) = module.local("reserved_variables").unwrap();
    let reserved = evaluate(module, reserved).text().unwrap();
    let names = reserved.strip_prefix("^(").and_then(|names| names.strip_suffix(")$")).unwrap();
    let names: BTreeSet<String> = names.split('|').map(str::to_owned).collect();
    let services = read("terraform/modules/almanac/services.tf");
    let set: BTreeSet<String> = services
        .split("name = \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|name| name.starts_with("ALMANAC_") || name.starts_with("AWS_"))
        .map(|name| name.replace("${upper(name)}", ".*"))
        .collect();
    assert_eq!(names, set);
    for input in ["environment", "secrets"] {
        let (_, block) = module.block("variable", &[input]).unwrap();
        let conditions =
            block.body.get_blocks("validation").filter_map(|one| one.body.get_attribute("condition"));
        let is_asked = conditions
            .map(|condition| condition.value.to_string())
            .any(|condition| condition.contains("!can(regex(local.reserved_variables, name))"));
        assert!(is_asked, "{input} takes what the module sets");
    }
}

/// Commands and settings for containers and systemd are known to the binary.
#[test]
fn compose_and_systemd_say_what_the_binary_knows() {
    let (compose, unit, operating) =
        (read("deploy/compose.yaml"), read("deploy/almanac.service"), read("docs/operating.md"));
    let known = |text: &str| {
        let is_part = |letter: char| letter.is_ascii_uppercase() || letter == '_';
        let names = text.split(|letter| !is_part(letter)).filter(|name| name.starts_with("ALMANAC_"));
        let unknown = names.filter(|name| {
            !operating.contains(&format!("`{name}`")) && !operating.contains(&format!("${name}"))
        });
        unknown.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((known(&compose), known(&unit)), (vec![], vec![]), "settings that nobody reads");
    let commands = compose.lines().filter_map(|line| line.trim().strip_prefix("command: "));
    let ours: Vec<&str> = commands.filter(|command| !command.starts_with("-jar")).collect();
    assert_eq!(ours, ["table create", "up --role ingest", "up --role projector", "up --role query"]);
    assert!(unit.lines().any(|line| line == "ExecStart=/usr/local/bin/almanac up"));
    // The unit allows longer than the binary takes.
    let stop = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
    assert!(stop.parse::<u32>().unwrap() > 30, "{stop}");
    let release = read("deploy/release");
    for step in ["build", "pack", "check"] {
        assert!(release.contains(&format!("#   deploy/release {step}")), "{step} is described");
    }
}
