# What ECS tells of itself, to the topics of tickets: tasks that end or cannot start, and deployments that fail. An alarm
# needs metrics, and a task that ran out of memory leaves none.

locals {
  service_prefix = "arn:${data.aws_partition.current.partition}:ecs:${data.aws_region.current.region}:${data.aws_caller_identity.current.account_id}:service/${aws_ecs_cluster.this.name}/"

  events = {
    task-failed = {
      description = "A task ended by itself, ran out of memory, or could not start. See docs/operating.md#task-failed."
      pattern = {
        source      = ["aws.ecs"]
        detail-type = ["ECS Task State Change"]
        detail = {
          clusterArn = [aws_ecs_cluster.this.arn]
          lastStatus = ["STOPPED"]
          # Not what a deployment or autoscaling stops, nor the commands of operators.
          stopCode = ["EssentialContainerExited", "TaskFailedToStart"]
          group    = [{ prefix = "service:" }]
        }
      }
      paths = { what = "$.detail.group", why = "$.detail.stoppedReason", at = "$.detail.taskArn" }
    }
    deployment-failed = {
      description = "A deployment failed, or tasks cannot be placed. See docs/operating.md#deployment-failed."
      pattern = {
        source      = ["aws.ecs"]
        detail-type = ["ECS Deployment State Change", "ECS Service Action"]
        resources   = [{ prefix = local.service_prefix }]
        detail = {
          eventName = ["SERVICE_DEPLOYMENT_FAILED", "SERVICE_TASK_PLACEMENT_FAILURE", "SERVICE_TASK_START_IMPAIRED", "SERVICE_TASK_CONFIGURATION_FAILURE"]
        }
      }
      paths = { what = "$.detail.eventName", why = "$.detail.reason", at = "$.resources[0]" }
    }
  }

  # For documents and tests.
  event_names = ["task-failed", "deployment-failed"]

  # Topics by their place in the list, since an ARN may be known only when its topic is made.
  event_targets = merge([
    for event in local.event_names : { for at in range(length(local.ticket_topics)) : "${event}-${at}" => { event = event, topic = at } }
  ]...)
}

resource "aws_cloudwatch_event_rule" "this" {
  for_each = { for name in local.event_names : name => local.events[name] }

  name          = "${var.name}-${each.key}"
  description   = each.value.description
  event_pattern = jsonencode(each.value.pattern)
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "this" {
  for_each = local.event_targets

  rule      = aws_cloudwatch_event_rule.this[each.value.event].name
  target_id = "topic-${each.value.topic}"
  arn       = local.ticket_topics[each.value.topic]

  input_transformer {
    input_paths    = local.events[each.value.event].paths
    input_template = "\"${var.name}-${each.value.event}: <what>, <at>: <why>. See docs/operating.md#${each.value.event}.\""
  }
}
