# Metrics of CloudWatch made from log lines: each service writes a line with the message "telemetry" once a minute, and lines of
# level WARN and ERROR when something is wrong.

locals {
  metric_namespace = "Almanac/${var.name}"

  # The field of the telemetry line, the roles that write it, and the unit. What is not known has no field, and so no metric.
  log_metrics = {
    LagSeconds       = { field = "lag_seconds", roles = ["projector"], unit = "Seconds" }
    LagSegments      = { field = "lag_segments", roles = ["projector"], unit = "Count" }
    DeadLetters      = { field = "dead_letters", roles = ["projector"], unit = "Count" }
    UnevaluatedDays  = { field = "unevaluated_days", roles = ["projector"], unit = "Count" }
    HeartbeatSeconds = { field = "heartbeat_seconds", roles = ["projector"], unit = "Seconds" }
    FoldSeconds      = { field = "fold_seconds", roles = ["projector"], unit = "Seconds" }
    FeedSeconds      = { field = "feed_seconds", roles = ["projector"], unit = "Seconds" }
    SweepSeconds     = { field = "sweep_seconds", roles = ["projector"], unit = "Seconds" }
    Denied           = { field = "denied", roles = ["ingest", "projector", "query"], unit = "Count" }
    Errors           = { field = "errors", roles = ["ingest", "query"], unit = "Count" }
    TurnedAway       = { field = "turned_away", roles = ["ingest", "query"], unit = "Count" }
  }

  log_levels = { WarnLines = "WARN", ErrorLines = "ERROR" }

  log_filters = merge(
    merge([
      for metric, of in local.log_metrics : {
        for role in of.roles : "${metric}-${role}" => {
          metric  = metric
          role    = role
          pattern = "{ $.message = \"telemetry\" && $.${of.field} = * }"
          value   = "$.${of.field}"
          unit    = of.unit
        }
      }
    ]...),
    merge([
      for metric, level in local.log_levels : {
        for role in keys(local.services) : "${metric}-${role}" => {
          metric  = metric
          role    = role
          pattern = "{ $.level = \"${level}\" }"
          value   = "1"
          unit    = "Count"
        }
      }
    ]...),
    # One a minute and task, so that they tell how many tasks run.
    {
      for role in keys(local.services) : "Minutes-${role}" => {
        metric  = "Minutes-${role}"
        role    = role
        pattern = "{ $.message = \"telemetry\" }"
        value   = "1"
        unit    = "Count"
      }
    },
  )
}

resource "aws_cloudwatch_log_metric_filter" "this" {
  for_each = local.log_filters

  name           = "${var.name}-${each.key}"
  log_group_name = aws_cloudwatch_log_group.service[each.value.role].name
  pattern        = each.value.pattern

  metric_transformation {
    namespace = local.metric_namespace
    name      = each.value.metric
    value     = each.value.value
    unit      = each.value.unit
  }
}
