//! Terraform (or OpenTofu) itself, where it is installed: how the files are laid out, which values
//! variables take, and, where the provider has been fetched, `validate`.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::code::{Project, root};

/// A folder of providers as `terraform providers mirror` makes it; without it `validate` cannot run.
const PROVIDERS: &str = "ALMANAC_TEST_TERRAFORM_PROVIDERS";

/// The program, if there is one; else this is said.
pub(crate) fn tool() -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    let candidates =
        env::split_paths(&paths).flat_map(|folder| ["terraform", "tofu"].map(|name| folder.join(name)));
    let found = candidates.into_iter().find(|path| path.is_file());
    if found.is_none() {
        println!("SKIPPED: neither terraform nor tofu is on the PATH");
    }
    found
}

fn run(tool: &Path, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(tool);
    command.current_dir(folder).args(arguments);
    // No configuration of the user who runs the test, no news of versions, no colours.
    command.env("TF_CLI_CONFIG_FILE", if cfg!(windows) { "NUL" } else { "/dev/null" });
    command.env("CHECKPOINT_DISABLE", "1").env("TF_IN_AUTOMATION", "1");
    command.output().unwrap()
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_files_are_laid_out_as_terraform_does() {
    let Some(tool) = tool() else { return };
    let output = run(&tool, &root(), &["fmt", "-check", "-recursive", "-diff", "terraform"]);
    assert!(output.status.success(), "terraform fmt -recursive terraform\n{}", text(&output));
}

#[test]
fn terraform_validates_the_example() {
    let Some(tool) = tool() else { return };
    let Some(providers) = env::var_os(PROVIDERS) else {
        return println!("SKIPPED: {PROVIDERS} names no folder with the AWS provider");
    };
    let copy = tempfile::tempdir().unwrap();
    for (path, text) in crate::code::texts() {
        let path = copy.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let folder = copy.path().join("terraform/examples/basic");
    let plugins = format!("-plugin-dir={}", providers.to_str().unwrap());
    for arguments in
        [vec!["init", "-backend=false", "-input=false", "-no-color", &plugins], vec!["validate", "-no-color"]]
    {
        let output = run(&tool, &folder, &arguments);
        assert!(output.status.success(), "{arguments:?}\n{}", text(&output));
    }
}

/// What must be given, with values that are right.
const GIVEN: [(&str, &str); 7] = [
    ("image", "\"1.dkr.ecr.eu-west-1.amazonaws.com/almanac:0.2.0\""),
    ("vpc_id", "\"vpc-1\""),
    ("load_balancer_subnet_ids", "[\"subnet-1\", \"subnet-2\"]"),
    ("task_subnet_ids", "[\"subnet-1\"]"),
    ("certificate_arn", "\"arn:aws:acm:eu-west-1:1:certificate/1\""),
    ("admin_token_secret_arn", "\"arn:aws:secretsmanager:eu-west-1:1:secret:almanac-1\""),
    ("allowed_cidr_blocks", "[\"10.0.0.0/8\"]"),
];

/// Values that are taken, beside those given.
pub(crate) const GOOD: [(&str, &str); 11] = [
    ("name", "\"almanac-2\""),
    (
        "image",
        "\"localhost:5000/almanac@sha256:0000000000000000000000000000000000000000000000000000000000000000\"",
    ),
    ("ingest", "{ cpu = 256, memory = 512, min = 1, max = 1 }"),
    ("projector", "{ cpu = 16384, memory = 122880 }"),
    ("query", "{ cpu = 8192, memory = 20480 }"),
    ("provisioned", "{ read_min = 5, read_max = 50, write_min = 5, write_max = 50 }"),
    ("kms_key_arn", "\"arn:aws:kms:eu-west-1:1:key/1\""),
    ("log_retention_days", "3653"),
    ("oidc", "{ issuer = \"https://login.example.com\", audience = \"almanac\", domain = \"example.com\" }"),
    ("trusted_proxies", "[\"10.0.0.0/24\", \"10.0.1.0/24\"]"),
    ("alarm_topic_arns", "[\"arn:aws:sns:eu-west-1:1:alarms\"]"),
];

/// Values that are refused, and a part of what is said.
const BAD: [(&str, &str, &str); 27] = [
    ("name", "\"Almanac\"", "3 to 20 lower-case letters"),
    ("name", "\"almanac-\"", "not end with a hyphen"),
    ("image", "\"almanac\"", "needs a tag"),
    ("image", "\"almanac:latest\"", "other than latest"),
    ("ecr_repository_arn", "\"arn:aws:s3:::x\"", "ARN of an ECR repository"),
    ("cpu_architecture", "\"AMD64\"", "X86_64 or ARM64"),
    ("vpc_id", "\"1\"", "begins with vpc-"),
    ("load_balancer_subnet_ids", "[\"subnet-1\"]", "two availability zones"),
    ("task_subnet_ids", "[]", "need a subnet"),
    ("certificate_arn", "\"x\"", "ARN of an ACM certificate"),
    ("admin_token_secret_arn", "\"alm_x\"", "ARN of a secret"),
    ("oidc", "{ isuer = \"https://login.example.com\" }", "a setting of the table oidc"),
    ("oidc", "{ issuer = \"http://login.example.com\", audience = \"almanac\" }", "needs https://"),
    ("oidc", "{ issuer = \"https://login.example.com\" }", "an audience"),
    ("trusted_proxies", "[\"everybody\"]", "an IPv4 range"),
    ("allowed_cidr_blocks", "[]", "At least one IPv4 range"),
    ("allowed_cidr_blocks", "[\"everybody\"]", "At least one IPv4 range"),
    ("ingest", "{ memory = 512 }", "no such pair"),
    ("projector", "{ cpu = 300 }", "no such pair"),
    ("query", "{ min = 3, max = 2 }", "fewer than the least"),
    (
        "provisioned",
        "{ read_min = 0, read_max = 1, write_min = 1, write_max = 1 }",
        "Every least is at least 1",
    ),
    (
        "provisioned",
        "{ read_min = 1, read_max = 1, write_min = 1, write_max = 1, target_percent = 95 }",
        "20 to 90 percent",
    ),
    ("kms_key_arn", "\"arn:aws:kms:eu-west-1:1:alias/x\"", "not of an alias"),
    ("log_retention_days", "2", "CloudWatch keeps logs for 1, 3, 5"),
    ("alarm_topic_arns", "[\"mail@example.com\"]", "ARNs of SNS topics"),
    ("lag_alarm_seconds", "5", "Below 20 seconds"),
    ("read_budget_units_per_hour", "0", "more than nothing"),
];

/// Plans with nothing but the variables of the module and the locals that they look at, which needs no
/// provider.
pub(crate) fn plan(tool: &Path, folder: &Path, changed: &[(&str, &str)]) -> Output {
    let mut values: BTreeMap<&str, &str> = GIVEN.into();
    values.extend(changed.iter().copied());
    let lines: String = values.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    fs::write(folder.join("values.tfvars"), lines).unwrap();
    run(tool, folder, &["plan", "-no-color", "-input=false", "-var-file=values.tfvars"])
}

#[test]
fn variables_take_what_is_right_and_refuse_what_is_not() {
    let Some(tool) = tool() else { return };
    let project = Project::read();
    let module = project.almanac();
    let folder = tempfile::tempdir().unwrap();
    let variables = module
        .blocks("variable")
        .map(|(_, block)| format!("{}\n", hcl_edit::structure::Body::from(vec![block.clone().into()])));
    fs::write(folder.path().join("variables.tf"), variables.collect::<String>()).unwrap();
    let (_, memory) = module.local("fargate_memory").unwrap();
    fs::write(folder.path().join("locals.tf"), format!("locals {{\n  fargate_memory = {memory}\n}}\n"))
        .unwrap();

    let output = plan(&tool, folder.path(), &GOOD);
    assert!(output.status.success(), "{}", text(&output));
    let mut refused: Vec<&str> = Vec::new();
    for (name, value, why) in BAD {
        let output = plan(&tool, folder.path(), &[(name, value)]);
        // It breaks lines where it likes.
        let said = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!output.status.success() && said.contains(why), "{name} = {value}: {said}");
        refused.push(name);
    }
    for (_, block) in module.blocks("variable").filter(|(_, block)| block.body.has_blocks("validation")) {
        let name = crate::code::label(block, 0);
        let alike = name == "write_budget_units_per_hour";
        assert!(alike || refused.contains(&name), "no bad value of {name} is tried");
    }
}
