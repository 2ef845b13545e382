# Alarms. docs/operating.md says what each means and what to do; a test holds the two
# together. All figures are of CloudWatch itself, but lag and dead letters, which are read from the log
# of the projectors: each writes a line with the message "telemetry" once a minute.

locals {
  metric_namespace = "Almanac/${var.name}"

  # A partition is the table's name alone, or that and an index.
  table_parts = merge(
    { table = { TableName = aws_dynamodb_table.this.name } },
    { for index in local.index_names : lower(index) => { TableName = aws_dynamodb_table.this.name, GlobalSecondaryIndexName = index } },
  )

  throttle_metrics = merge(
    { for part, dimensions in local.table_parts : "read_${part}" => { metric = "ReadThrottleEvents", dimensions = dimensions } },
    { for part, dimensions in local.table_parts : "write_${part}" => { metric = "WriteThrottleEvents", dimensions = dimensions } },
  )

  operations = ["GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "GetRecords"]
}

resource "aws_cloudwatch_log_metric_filter" "lag_seconds" {
  name           = "${var.name}-lag-seconds"
  log_group_name = aws_cloudwatch_log_group.service["projector"].name
  pattern        = "{ $.message = \"telemetry\" && $.lag_seconds = * }"

  metric_transformation {
    namespace = local.metric_namespace
    name      = "LagSeconds"
    value     = "$.lag_seconds"
    unit      = "Seconds"
  }
}

resource "aws_cloudwatch_log_metric_filter" "lag_segments" {
  name           = "${var.name}-lag-segments"
  log_group_name = aws_cloudwatch_log_group.service["projector"].name
  pattern        = "{ $.message = \"telemetry\" && $.lag_segments = * }"

  metric_transformation {
    namespace = local.metric_namespace
    name      = "LagSegments"
    value     = "$.lag_segments"
    unit      = "Count"
  }
}

resource "aws_cloudwatch_log_metric_filter" "dead_letters" {
  name           = "${var.name}-dead-letters"
  log_group_name = aws_cloudwatch_log_group.service["projector"].name
  pattern        = "{ $.message = \"telemetry\" && $.dead_letters = * }"

  metric_transformation {
    namespace = local.metric_namespace
    name      = "DeadLetters"
    value     = "$.dead_letters"
    unit      = "Count"
  }
}

resource "aws_cloudwatch_metric_alarm" "table_throttles" {
  alarm_name          = "${var.name}-table-throttles"
  alarm_description   = "DynamoDB turns calls away. See docs/operating.md#table-throttles."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
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
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
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
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
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
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
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

# A projector that is silent for 10 minutes counts as one that lags.
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
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags

  depends_on = [aws_cloudwatch_log_metric_filter.lag_seconds]
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

  depends_on = [aws_cloudwatch_log_metric_filter.lag_seconds]
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
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags

  depends_on = [aws_cloudwatch_log_metric_filter.dead_letters]
}

resource "aws_cloudwatch_metric_alarm" "http_errors" {
  alarm_name          = "${var.name}-http-errors"
  alarm_description   = "Callers get answers of 500 and above. See docs/operating.md#http-errors."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 5
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags

  metric_query {
    id          = "errors"
    expression  = "SUM(METRICS())"
    label       = "Answers of 500 and above in a minute"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = {
      of_services      = "HTTPCode_Target_5XX_Count"
      of_load_balancer = "HTTPCode_ELB_5XX_Count"
    }

    content {
      id = metric_query.key

      metric {
        namespace   = "AWS/ApplicationELB"
        metric_name = metric_query.value
        dimensions  = { LoadBalancer = aws_lb.this.arn_suffix }
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
  statistic           = "Minimum"
  period              = 60
  evaluation_periods  = 3
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "query_down" {
  alarm_name          = "${var.name}-query-down"
  alarm_description   = "Nobody answers queries. See docs/operating.md#query-down."
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  namespace           = "AWS/ApplicationELB"
  metric_name         = "HealthyHostCount"
  dimensions          = { LoadBalancer = aws_lb.this.arn_suffix, TargetGroup = aws_lb_target_group.this["query"].arn_suffix }
  statistic           = "Minimum"
  period              = 60
  evaluation_periods  = 3
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}
