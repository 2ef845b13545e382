# One role a service, with what it does and nothing else. A test records what each service calls in a
# run of the whole pipeline, and compares both ways.
#
# Rights to write are bound to partitions (log/src/key.rs lists them). An id has 27 characters, and
# `?` stands for exactly one, so `w#<id>` here is not the beginning of `w#<id>/rollup/v1`.
#
# Of a transaction, nobody has written down whether IAM sees the key of each write or the keys of all. So one statement
# allows each transaction whole, which gives some keys more than they need; what they need not is denied where a call names
# nothing else. A test holds both readings.

locals {
  id        = "???????????????????????????"
  workspace = "w#${local.id}"

  # The catalog: categories, workspaces and what is in them, runs, users, groups, systems, names, pointers, tokens and the
  # roles on the whole server.
  catalog_keys = [
    "wc#${local.id}",
    local.workspace,
    "${local.workspace}/run",
    "u#*",
    "g#*",
    "s#*",
    "@name#*",
    "@id#*",
    "token#*",
    "sys/access",
  ]

  # What was live in each environment, what happened, and the latest metrics of runs: written when an event is
  # appended, and again when it is projected.
  record_keys = [
    "${local.workspace}/env#*",
    "${local.workspace}/feed",
    "${local.workspace}/def",
    "${local.workspace}/latest",
  ]

  # The audit logs: a record is written together with its change.
  audit_keys = ["${local.workspace}/audit", "sys/audit"]

  # Who follows the log, and how far each has read.
  consumer_keys = ["${local.workspace}/consumer"]

  # What people judge: reviews, and which answers are to be appended; the items, and who has them; what each reviewer was
  # shown and said.
  review_keys = ["${local.workspace}/review"]
  judged_keys = ["${local.workspace}/review/${local.id}", "${local.workspace}/reviewer/*"]

  # Which keys are erased: digests of them, and how far each erasure is. What is decided of events demands that nobody is at it.
  erased_keys = ["${local.workspace}/erased"]

  # The log, of which lanes may have partitions of their own, and the markers of its batches.
  day_keys = ["${local.workspace}/day", "${local.workspace}/day/??"]
  log_keys = concat(local.day_keys, ["${local.workspace}/batch", "${local.workspace}/batch/??"])

  # Counters, rollups and evaluations, which version of them is
  # served, evaluations and rollups as they stood at ages of their days, filters of keys, what unmatched outcomes were decided to judge, dead letters, where alert rules stand and when they crossed; leases, heartbeats,
  # the time that the table has counted and how far it was swept.
  projection_keys = [
    local.workspace,
    "${local.workspace}/count",
    "${local.workspace}/rollup/v*",
    "${local.workspace}/feature/v*",
    "${local.workspace}/keys/v*",
    "${local.workspace}/unmatched",
    "${local.workspace}/proj",
    "${local.workspace}/vintage",
    "${local.workspace}/rollup-vintage",
    "${local.workspace}/dlq/v*",
    "${local.workspace}/alert",
    "sys/lease#*",
    "sys/worker",
    "sys/time",
    "sys/sweep",
  ]

  policies = {
    ingest    = data.aws_iam_policy_document.ingest.json
    projector = data.aws_iam_policy_document.projector.json
    query     = data.aws_iam_policy_document.query.json
  }
}

data "aws_iam_policy_document" "ingest" {
  statement {
    sid       = "LookAtTheTable"
    actions   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
    resources = [aws_dynamodb_table.this.arn]
  }

  statement {
    sid       = "Read"
    actions   = ["dynamodb:GetItem", "dynamodb:Query"]
    resources = [aws_dynamodb_table.this.arn, "${aws_dynamodb_table.this.arn}/index/*"]
  }

  # Events, and what is put with nothing else but what is put.
  statement {
    sid       = "Append"
    actions   = ["dynamodb:PutItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = concat(local.log_keys, local.catalog_keys, local.record_keys, local.audit_keys, local.consumer_keys, local.review_keys, local.judged_keys, ["quota#*", "sys/probe", "sys/layout"])
    }
  }

  # A change, its record in the audit log, and what it demands of others.
  statement {
    sid       = "TendTheCatalog"
    actions   = ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = concat(local.catalog_keys, local.audit_keys, ["${local.workspace}/def"])
    }
  }

  # A review is made and deleted together with its record in the audit log.
  statement {
    sid       = "TendReviews"
    actions   = ["dynamodb:PutItem", "dynamodb:DeleteItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = concat(local.review_keys, ["${local.workspace}/audit"])
    }
  }

  # An erasure is begun together with the digests of its keys and its record in the audit log.
  statement {
    sid       = "BeginErasures"
    actions   = ["dynamodb:PutItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = concat(local.erased_keys, ["${local.workspace}/audit"])
    }
  }

  # A consumer is made and deleted together with its record in the audit log.
  statement {
    sid       = "TendConsumers"
    actions   = ["dynamodb:PutItem", "dynamodb:DeleteItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = concat(local.consumer_keys, ["${local.workspace}/audit"])
    }
  }

  # The latest metrics of the runs of a workspace go with it.
  statement {
    sid       = "ForgetMetricsOfRuns"
    actions   = ["dynamodb:DeleteItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = ["${local.workspace}/latest"]
    }
  }

  # A day is pinned, kept for longer, or in a snapshot that is made, with its name, while it has not expired and the layout is the same.
  statement {
    sid       = "KeepDays"
    actions   = ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = [local.workspace, "@name#*", "@id#*", "${local.workspace}/audit", "${local.workspace}/expired", "sys/layout"]
    }
  }

  statement {
    sid       = "LeaveAuditLogsAsTheyAre"
    effect    = "Deny"
    actions   = ["dynamodb:UpdateItem", "dynamodb:DeleteItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = local.audit_keys
    }

    condition {
      test     = "Null"
      variable = "dynamodb:LeadingKeys"
      values   = ["false"]
    }
  }

  statement {
    sid       = "LeaveExpiryToTheProjector"
    effect    = "Deny"
    actions   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = ["${local.workspace}/expired"]
    }

    condition {
      test     = "Null"
      variable = "dynamodb:LeadingKeys"
      values   = ["false"]
    }
  }
}

data "aws_iam_policy_document" "projector" {
  statement {
    sid       = "LookAtTheTable"
    actions   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
    resources = [aws_dynamodb_table.this.arn]
  }

  statement {
    sid       = "Read"
    actions   = ["dynamodb:GetItem", "dynamodb:Query"]
    resources = [aws_dynamodb_table.this.arn, "${aws_dynamodb_table.this.arn}/index/*"]
  }

  statement {
    sid       = "FollowChanges"
    actions   = ["dynamodb:DescribeStream", "dynamodb:GetShardIterator", "dynamodb:GetRecords"]
    resources = ["${aws_dynamodb_table.this.arn}/stream/*"]
  }

  # What is folded, evaluated and told; days that have expired are marked, while their setting is still what it was, and what is
  # evaluated is not of a marked day. What operators do with these rights is audited.
  statement {
    sid       = "Project"
    actions   = ["dynamodb:PutItem", "dynamodb:ConditionCheckItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = concat(local.projection_keys, local.record_keys, local.erased_keys, ["${local.workspace}/audit", "${local.workspace}/expired", "sys/layout"])
    }
  }

  # Outcomes that were decided: of which it was found what they judge, or that reviewers gave as answers.
  statement {
    sid       = "AppendOutcomes"
    actions   = ["dynamodb:PutItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = local.day_keys
    }
  }

  # Keys are erased: segments are written again without them, together with how far the erasure is; so are items and answers of reviews,
  # and it is shown that somebody is at it.
  statement {
    sid       = "Erase"
    actions   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = concat(local.erased_keys, local.day_keys, local.judged_keys, ["${local.workspace}/audit"])
    }
  }

  # Small segments are merged, unless keys are being erased meanwhile.
  statement {
    sid       = "Merge"
    actions   = ["dynamodb:PutItem", "dynamodb:ConditionCheckItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = concat(local.erased_keys, local.day_keys)
    }
  }

  # The leaderboard: two attributes of a release.
  statement {
    sid       = "Rank"
    actions   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = [local.workspace, "${local.workspace}/audit"]
    }
  }

  # Projections that others replace, and segments that have expired.
  statement {
    sid       = "Delete"
    actions   = ["dynamodb:DeleteItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = concat(local.projection_keys, local.review_keys, local.day_keys)
    }
  }

  statement {
    sid       = "LeaveAuditLogsAsTheyAre"
    effect    = "Deny"
    actions   = ["dynamodb:UpdateItem", "dynamodb:DeleteItem"]
    resources = [aws_dynamodb_table.this.arn]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "dynamodb:LeadingKeys"
      values   = local.audit_keys
    }

    condition {
      test     = "Null"
      variable = "dynamodb:LeadingKeys"
      values   = ["false"]
    }
  }
}

data "aws_iam_policy_document" "query" {
  statement {
    sid       = "LookAtTheTable"
    actions   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
    resources = [aws_dynamodb_table.this.arn]
  }

  statement {
    sid       = "Read"
    actions   = ["dynamodb:GetItem", "dynamodb:Query"]
    resources = [aws_dynamodb_table.this.arn, "${aws_dynamodb_table.this.arn}/index/*"]
  }
}

# With a key of one's own, DynamoDB uses it in the name of the caller.
data "aws_iam_policy_document" "key" {
  count = var.use_kms_key ? 1 : 0

  statement {
    sid       = "UseTheKeyThroughDynamoDB"
    actions   = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:GenerateDataKey", "kms:DescribeKey"]
    resources = [var.kms_key_arn]

    condition {
      test     = "StringEquals"
      variable = "kms:ViaService"
      values   = ["dynamodb.${data.aws_region.current.region}.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.current.account_id]
    }
  }
}

resource "aws_iam_role" "service" {
  for_each = local.services

  name_prefix          = "${var.name}-${each.key}-"
  description          = "What Almanac ${each.key} may do"
  assume_role_policy   = data.aws_iam_policy_document.assume.json
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
}

resource "aws_iam_role_policy" "service" {
  for_each = local.services

  name   = "table"
  role   = aws_iam_role.service[each.key].id
  policy = local.policies[each.key]
}

resource "aws_iam_role_policy" "key" {
  for_each = { for name, service in local.services : name => service if var.use_kms_key }

  name   = "key"
  role   = aws_iam_role.service[each.key].id
  policy = data.aws_iam_policy_document.key[0].json
}

# What ECS itself needs to start a task: the image, the token of the administrator and other secrets, and somewhere to write logs.
data "aws_iam_policy_document" "execution" {
  statement {
    sid       = "WriteLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = [for group in aws_cloudwatch_log_group.service : "${group.arn}:*"]
  }

  dynamic "statement" {
    for_each = length(local.admin_secrets) + length(flatten(values(local.given_secrets))) == 0 ? [] : ["secrets"]

    content {
      sid       = "ReadSecrets"
      actions   = ["secretsmanager:GetSecretValue"]
      resources = concat(local.admin_secrets[*].valueFrom, local.secret_arns)
    }
  }

  dynamic "statement" {
    for_each = var.ecr_repository_arn == null ? [] : [var.ecr_repository_arn]

    content {
      sid       = "PullTheImage"
      actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
      resources = [statement.value]
    }
  }

  # A token is not of one repository, so this right cannot be bound to one.
  dynamic "statement" {
    for_each = var.ecr_repository_arn == null ? [] : [var.ecr_repository_arn]

    content {
      sid       = "LogInToTheRegistry"
      actions   = ["ecr:GetAuthorizationToken"]
      resources = ["*"]
    }
  }
}

resource "aws_iam_role" "execution" {
  name_prefix          = "${var.name}-execution-"
  description          = "What ECS may do to start tasks of Almanac"
  assume_role_policy   = data.aws_iam_policy_document.assume.json
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
}

resource "aws_iam_role_policy" "execution" {
  name   = "start"
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.execution.json
}
