# One page: is it up, is it late, what does it cost.

locals {
  table    = aws_dynamodb_table.this.name
  balancer = aws_lb.this.arn_suffix

  # The series of each graph, as CloudWatch writes them.
  graph_lag = {
    title = "Lag of the projectors, in seconds"
    series = [
      [local.metric_namespace, "LagSeconds", { stat = "Maximum", label = "oldest day that waits" }],
    ]
  }

  graph_still = {
    title = "What must move, in seconds since it did"
    series = [
      for metric in keys(local.still_bounds) : [local.metric_namespace, metric, { stat = "Maximum" }]
    ]
  }

  graph_lines = {
    title = "Lines of warnings and errors, calls that were denied or turned away"
    series = [
      for metric in concat(keys(local.log_levels), ["Denied", "TurnedAway"]) : [local.metric_namespace, metric, { stat = "Sum" }]
    ]
  }

  graph_backlog = {
    title = "Segments and evaluations that wait, dead letters"
    series = [
      [local.metric_namespace, "LagSegments", { stat = "Maximum", label = "segments" }],
      [local.metric_namespace, "UnevaluatedDays", { stat = "Maximum", label = "days to be evaluated" }],
      [local.metric_namespace, "DeadLetters", { stat = "Maximum", label = "dead letters" }],
    ]
  }

  graph_requests = {
    title = "Requests"
    series = concat(
      [for name, group in aws_lb_target_group.this : ["AWS/ApplicationELB", "RequestCount", "LoadBalancer", local.balancer, "TargetGroup", group.arn_suffix, { stat = "Sum", label = name }]],
      [
        ["AWS/ApplicationELB", "HTTPCode_ELB_5XX_Count", "LoadBalancer", local.balancer, { stat = "Sum" }],
        [local.metric_namespace, "Errors", { stat = "Sum" }],
      ],
    )
  }

  graph_latency = {
    title = "Time to answer, 99th percentile, in seconds"
    series = [
      for name, group in aws_lb_target_group.this : ["AWS/ApplicationELB", "TargetResponseTime", "LoadBalancer", local.balancer, "TargetGroup", group.arn_suffix, { stat = "p99", label = name }]
    ]
  }

  graph_read = {
    title = "Units read"
    series = [
      for part, dimensions in local.table_parts : concat(["AWS/DynamoDB", "ConsumedReadCapacityUnits"], flatten([for name, value in dimensions : [name, value]]), [{ stat = "Sum", label = part }])
    ]
  }

  graph_written = {
    title = "Units written"
    series = [
      for part, dimensions in local.table_parts : concat(["AWS/DynamoDB", "ConsumedWriteCapacityUnits"], flatten([for name, value in dimensions : [name, value]]), [{ stat = "Sum", label = part }])
    ]
  }

  graph_refused = {
    title = "Calls turned away, failures of DynamoDB"
    series = concat(
      [for metric in ["ReadThrottleEvents", "WriteThrottleEvents"] : ["AWS/DynamoDB", metric, "TableName", local.table, { stat = "Sum" }]],
      [for operation in local.operations : ["AWS/DynamoDB", "SystemErrors", "TableName", local.table, "Operation", operation, { stat = "Sum", label = "errors of ${operation}" }]],
    )
  }

  graph_cpu = {
    title = "CPU, in percent"
    series = [
      for name, service in aws_ecs_service.service : ["AWS/ECS", "CPUUtilization", "ClusterName", aws_ecs_cluster.this.name, "ServiceName", service.name, { stat = "Average", label = name }]
    ]
  }

  graph_memory = {
    title = "Memory, in percent"
    series = [
      for name, service in aws_ecs_service.service : ["AWS/ECS", "MemoryUtilization", "ClusterName", aws_ecs_cluster.this.name, "ServiceName", service.name, { stat = "Maximum", label = name }]
    ]
  }

  graphs = [
    local.graph_lag, local.graph_backlog, local.graph_requests,
    local.graph_latency, local.graph_read, local.graph_written,
    local.graph_refused, local.graph_cpu, local.graph_memory,
    local.graph_still, local.graph_lines,
  ]
}

resource "aws_cloudwatch_dashboard" "this" {
  dashboard_name = var.name

  # Three graphs a row; a row has 24 columns.
  dashboard_body = jsonencode({
    widgets = [for at, graph in local.graphs : {
      type   = "metric"
      x      = at % 3 * 8
      y      = floor(at / 3) * 6
      width  = 8
      height = 6
      properties = {
        title   = graph.title
        metrics = graph.series
        region  = data.aws_region.current.region
        period  = 60
        view    = "timeSeries"
      }
    }]
  })
}
