# Alarms. docs/operating.md says what each means and what to do; a test holds the two
# together. Their metrics are those of CloudWatch, or come from log lines (telemetry.tf).

locals {
  # A partition is the table's name alone, or that and an index.
  table_parts = merge(
    { table = { TableName = aws_dynamodb_table.this.name } },
    { for index in local.index_names : lower(index) => { TableName = aws_dynamodb_table.this.name, GlobalSecondaryIndexName = index } },
  )

  throttle_metrics = merge(
    { for part, dimensions in local.table_parts : "read_${part}" => { metric = "ReadThrottleEvents", dimensions = dimensions } },
    { for part, dimensions in local.table_parts : "write_${part}" => { metric = "WriteThrottleEvents", dimensions = dimensions } },
  )

  # Errors of services are from their logs: the load balancer does not tell a 503 of a busy service from a fault.
  http_error_metrics = {
    of_services      = { namespace = local.metric_namespace, metric = "Errors", dimensions = {} }
    of_load_balancer = { namespace = "AWS/ApplicationELB", metric = "HTTPCode_ELB_5XX_Count", dimensions = { LoadBalancer = aws_lb.this.arn_suffix } }
  }

  # Alarms of what callers notice now go to pages, all others to tickets.
  page_topics   = var.page_topic_arns
  ticket_topics = var.ticket_topic_arns == null ? var.page_topic_arns : var.ticket_topic_arns

  operations = ["GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "GetRecords"]

  # What takes a deployment back.
  deployment_alarms = {
    ingest    = [aws_cloudwatch_metric_alarm.http_errors.alarm_name, aws_cloudwatch_metric_alarm.ingest_latency.alarm_name]
    projector = [aws_cloudwatch_metric_alarm.projector_stands_still.alarm_name, aws_cloudwatch_metric_alarm.denied.alarm_name]
    query     = [aws_cloudwatch_metric_alarm.http_errors.alarm_name, aws_cloudwatch_metric_alarm.query_latency.alarm_name]
  }

  # The bounds of what moves as long as a projector can work, in seconds. A sweep comes every 15 minutes. Checkpoints are not
  # among them: they wait for evaluations, which may take long.
  still_bounds = {
    HeartbeatSeconds = 60
    FeedSeconds      = 120
    FoldSeconds      = 900
    SweepSeconds     = 2700
  }

  # The age of what is not reported. One worker sweeps, so as long as any reports, an age of the sweep is missing for no good
  # reason. Without a report nothing is known, as before the first deployment; projector-lag tells of a silence.
  still_filled = merge(
    { for metric in keys(local.still_bounds) : metric => "FILL(${lower(metric)}, 0)" },
    { SweepSeconds = "IF(FILL(heartbeatseconds, -1) >= 0, FILL(sweepseconds, 86400), 0)" },
  )

  # Services that may have more tasks than they have at least.
  scaled_services = { for name, service in local.services : name => service if service.max > service.min }
}

resource "aws_cloudwatch_metric_alarm" "table_throttles" {
  alarm_name          = "${var.name}-table-throttles"
  alarm_description   = "DynamoDB turns calls away. See docs/operating.md#table-throttles."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  metric_query {
    id          = "throttles"
    expression  = "SUM(METRICS())"
    label       = "Calls turned away"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.throttle_metrics

    content {
      id = metric_query.key

      metric {
        namespace   = "AWS/DynamoDB"
        metric_name = metric_query.value.metric
        dimensions  = metric_query.value.dimensions
        stat        = "Sum"
        period      = 60
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "table_errors" {
  alarm_name          = "${var.name}-table-errors"
  alarm_description   = "DynamoDB fails. See docs/operating.md#table-errors."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.page_topics
  ok_actions          = local.page_topics
  tags                = var.tags

  metric_query {
    id          = "errors"
    expression  = "SUM(METRICS())"
    label       = "Failures of DynamoDB"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = toset(local.operations)

    content {
      id = lower(metric_query.value)

      metric {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        dimensions  = { TableName = aws_dynamodb_table.this.name, Operation = metric_query.value }
        stat        = "Sum"
        period      = 60
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "read_budget" {
  alarm_name          = "${var.name}-read-budget"
  alarm_description   = "More is read in an hour than was planned for. See docs/operating.md#read-budget."
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.read_budget_units_per_hour
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  metric_query {
    id          = "units"
    expression  = "SUM(METRICS())"
    label       = "Read units in an hour"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.table_parts

    content {
      id = metric_query.key

      metric {
        namespace   = "AWS/DynamoDB"
        metric_name = "ConsumedReadCapacityUnits"
        dimensions  = metric_query.value
        stat        = "Sum"
        period      = 3600
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "write_budget" {
  alarm_name          = "${var.name}-write-budget"
  alarm_description   = "More is written in an hour than was planned for. See docs/operating.md#write-budget."
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.write_budget_units_per_hour
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  metric_query {
    id          = "units"
    expression  = "SUM(METRICS())"
    label       = "Write units in an hour"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.table_parts

    content {
      id = metric_query.key

      metric {
        namespace   = "AWS/DynamoDB"
        metric_name = "ConsumedWriteCapacityUnits"
        dimensions  = metric_query.value
        stat        = "Sum"
        period      = 3600
      }
    }
  }
}

# The age of what waits comes from the log, so it outlives restarts. A projector that is silent for 10 minutes, or does not get as far
# as to know, counts as one that lags.
resource "aws_cloudwatch_metric_alarm" "projector_lag" {
  alarm_name          = "${var.name}-projector-lag"
  alarm_description   = "Rollups are old. See docs/operating.md#projector-lag."
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.lag_alarm_seconds
  namespace           = local.metric_namespace
  metric_name         = "LagSeconds"
  statistic           = "Maximum"
  period              = 120
  evaluation_periods  = 5
  treat_missing_data  = "breaching"
  alarm_actions       = local.page_topics
  ok_actions          = local.page_topics
  tags                = var.tags

  depends_on = [aws_cloudwatch_log_metric_filter.this]
}

# Tells nobody: it adds projectors.
resource "aws_cloudwatch_metric_alarm" "projector_scale_out" {
  alarm_name          = "${var.name}-projector-scale-out"
  alarm_description   = "Adds projectors. See docs/operating.md#projector-scale-out."
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.lag_alarm_seconds / 2
  namespace           = local.metric_namespace
  metric_name         = "LagSeconds"
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 2
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_appautoscaling_policy.lag.arn]
  tags                = var.tags

  depends_on = [aws_cloudwatch_log_metric_filter.this]
}

resource "aws_cloudwatch_metric_alarm" "dead_letters" {
  alarm_name          = "${var.name}-dead-letters"
  alarm_description   = "A segment cannot be read, and its log stands still. See docs/operating.md#dead-letters."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  namespace           = local.metric_namespace
  metric_name         = "DeadLetters"
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  depends_on = [aws_cloudwatch_log_metric_filter.this]
}

resource "aws_cloudwatch_metric_alarm" "http_errors" {
  alarm_name          = "${var.name}-http-errors"
  alarm_description   = "Callers get answers of 500 and above. See docs/operating.md#http-errors."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 5
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.page_topics
  ok_actions          = local.page_topics
  tags                = var.tags

  metric_query {
    id          = "errors"
    expression  = "SUM(METRICS())"
    label       = "Answers of 500 and above in a minute"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.http_error_metrics

    content {
      id = metric_query.key

      metric {
        namespace   = metric_query.value.namespace
        metric_name = metric_query.value.metric
        dimensions  = metric_query.value.dimensions
        stat        = "Sum"
        period      = 60
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "ingest_down" {
  alarm_name          = "${var.name}-ingest-down"
  alarm_description   = "Nobody takes events. See docs/operating.md#ingest-down."
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  namespace           = "AWS/ApplicationELB"
  metric_name         = "HealthyHostCount"
  dimensions          = { LoadBalancer = aws_lb.this.arn_suffix, TargetGroup = aws_lb_target_group.this["ingest"].arn_suffix }
  # Each zone of the load balancer counts for itself; as long as one sees a task, requests are answered.
  statistic          = "Maximum"
  period             = 60
  evaluation_periods = 3
  treat_missing_data = "breaching"
  alarm_actions      = local.page_topics
  ok_actions         = local.page_topics
  tags               = var.tags
}

resource "aws_cloudwatch_metric_alarm" "query_down" {
  alarm_name          = "${var.name}-query-down"
  alarm_description   = "Nobody answers queries. See docs/operating.md#query-down."
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  namespace           = "AWS/ApplicationELB"
  metric_name         = "HealthyHostCount"
  dimensions          = { LoadBalancer = aws_lb.this.arn_suffix, TargetGroup = aws_lb_target_group.this["query"].arn_suffix }
  # Each zone of the load balancer counts for itself; as long as one sees a task, requests are answered.
  statistic          = "Maximum"
  period             = 60
  evaluation_periods = 3
  treat_missing_data = "breaching"
  alarm_actions      = local.page_topics
  ok_actions         = local.page_topics
  tags               = var.tags
}

# The most of four ages, each as a part of its bound.
resource "aws_cloudwatch_metric_alarm" "projector_stands_still" {
  alarm_name          = "${var.name}-projector-stands-still"
  alarm_description   = "What must move while a projector works does not: its heartbeat, its feed, its folds or the sweep. See docs/operating.md#projector-stands-still."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 1
  evaluation_periods  = 2
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.page_topics
  ok_actions          = local.page_topics
  tags                = var.tags

  metric_query {
    id          = "still"
    expression  = "MAX([${join(", ", [for metric, bound in local.still_bounds : "${local.still_filled[metric]} / ${bound}"])}])"
    label       = "The longest, as a part of its bound"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.still_bounds

    content {
      id = lower(metric_query.key)

      metric {
        namespace   = local.metric_namespace
        metric_name = metric_query.key
        stat        = "Maximum"
        period      = 300
      }
    }
  }

  depends_on = [aws_cloudwatch_log_metric_filter.this]
}

resource "aws_cloudwatch_metric_alarm" "unevaluated" {
  alarm_name          = "${var.name}-unevaluated"
  alarm_description   = "Days are folded and not evaluated. See docs/operating.md#unevaluated."
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.unevaluated_alarm_days
  namespace           = local.metric_namespace
  metric_name         = "UnevaluatedDays"
  statistic           = "Minimum"
  period              = 3600
  evaluation_periods  = 2
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  depends_on = [aws_cloudwatch_log_metric_filter.this]
}

resource "aws_cloudwatch_metric_alarm" "denied" {
  alarm_name          = "${var.name}-denied"
  alarm_description   = "DynamoDB refuses what a service asks for: its role lacks a right. See docs/operating.md#denied."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  namespace           = local.metric_namespace
  metric_name         = "Denied"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.page_topics
  ok_actions          = local.page_topics
  tags                = var.tags

  depends_on = [aws_cloudwatch_log_metric_filter.this]
}

resource "aws_cloudwatch_metric_alarm" "error_lines" {
  alarm_name          = "${var.name}-error-lines"
  alarm_description   = "A service logged an error. See docs/operating.md#error-lines."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  namespace           = local.metric_namespace
  metric_name         = "ErrorLines"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  depends_on = [aws_cloudwatch_log_metric_filter.this]
}

resource "aws_cloudwatch_metric_alarm" "warn_lines" {
  alarm_name          = "${var.name}-warn-lines"
  alarm_description   = "Services log warnings all the time. See docs/operating.md#warn-lines."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 10
  namespace           = local.metric_namespace
  metric_name         = "WarnLines"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 6
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  depends_on = [aws_cloudwatch_log_metric_filter.this]
}

resource "aws_cloudwatch_metric_alarm" "turned_away" {
  alarm_name          = "${var.name}-turned-away"
  alarm_description   = "Requests are turned away with 429 for a limit, or 503 by a busy service. See docs/operating.md#turned-away."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 100
  namespace           = local.metric_namespace
  metric_name         = "TurnedAway"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  depends_on = [aws_cloudwatch_log_metric_filter.this]
}

# What fails once an hour is too little for http-errors, and as bad for the one whose batch it is.
resource "aws_cloudwatch_metric_alarm" "http_errors_repeated" {
  alarm_name          = "${var.name}-http-errors-repeated"
  alarm_description   = "Some answers of 500 and above, hour after hour. See docs/operating.md#http-errors-repeated."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 6
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  metric_query {
    id          = "errors"
    expression  = "SUM(METRICS())"
    label       = "Answers of 500 and above in an hour"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.http_error_metrics

    content {
      id = metric_query.key

      metric {
        namespace   = metric_query.value.namespace
        metric_name = metric_query.value.metric
        dimensions  = metric_query.value.dimensions
        stat        = "Sum"
        period      = 3600
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "ingest_latency" {
  alarm_name          = "${var.name}-ingest-latency"
  alarm_description   = "Of the requests to ingest, one in a hundred takes too long. See docs/operating.md#ingest-latency."
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.latency_alarm_seconds
  namespace           = "AWS/ApplicationELB"
  metric_name         = "TargetResponseTime"
  dimensions          = { LoadBalancer = aws_lb.this.arn_suffix, TargetGroup = aws_lb_target_group.this["ingest"].arn_suffix }
  extended_statistic  = "p99"
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "query_latency" {
  alarm_name          = "${var.name}-query-latency"
  alarm_description   = "Of the requests to query, one in a hundred takes too long. See docs/operating.md#query-latency."
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.latency_alarm_seconds
  namespace           = "AWS/ApplicationELB"
  metric_name         = "TargetResponseTime"
  dimensions          = { LoadBalancer = aws_lb.this.arn_suffix, TargetGroup = aws_lb_target_group.this["query"].arn_suffix }
  extended_statistic  = "p99"
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "memory" {
  alarm_name          = "${var.name}-memory"
  alarm_description   = "A task is about to run out of memory. See docs/operating.md#memory."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 90
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  metric_query {
    id          = "most"
    expression  = "MAX([${join(", ", keys(local.services))}])"
    label       = "Memory of the fullest task, in percent"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.services

    content {
      id = metric_query.key

      metric {
        namespace   = "AWS/ECS"
        metric_name = "MemoryUtilization"
        dimensions  = { ClusterName = aws_ecs_cluster.this.name, ServiceName = metric_query.key }
        stat        = "Maximum"
        period      = 60
      }
    }
  }
}

# Each task writes one line a minute, of which now and then one is late.
resource "aws_cloudwatch_metric_alarm" "tasks_at_maximum" {
  alarm_name          = "${var.name}-tasks-at-maximum"
  alarm_description   = "A service has as many tasks as it may have, so autoscaling cannot help any more. See docs/operating.md#tasks-at-maximum."
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 6
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags

  metric_query {
    id          = "full"
    expression  = "MAX([${join(", ", concat(["0 * ingest"], [for name, service in local.scaled_services : "IF(${name} >= ${5 * service.max - 2}, 1, 0)"]))}])"
    label       = "Whether a service is at its maximum"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.services

    content {
      id = metric_query.key

      metric {
        namespace   = local.metric_namespace
        metric_name = "Minutes-${metric_query.key}"
        stat        = "Sum"
        period      = 300
      }
    }
  }

  depends_on = [aws_cloudwatch_log_metric_filter.this]
}

resource "aws_cloudwatch_metric_alarm" "certificate" {
  alarm_name          = "${var.name}-certificate"
  alarm_description   = "The certificate of the load balancer ends in less than 30 days, and was not renewed. See docs/operating.md#certificate."
  comparison_operator = "LessThanThreshold"
  threshold           = 30
  namespace           = "AWS/CertificateManager"
  metric_name         = "DaysToExpiry"
  dimensions          = { CertificateArn = var.certificate_arn }
  statistic           = "Minimum"
  period              = 86400
  evaluation_periods  = 1
  treat_missing_data  = "ignore"
  alarm_actions       = local.ticket_topics
  ok_actions          = local.ticket_topics
  tags                = var.tags
}
