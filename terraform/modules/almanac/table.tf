# The one table. `almanac admin table create` makes the same; a test compares the two.

locals {
  is_provisioned = var.provisioned != null
  index_names    = ["GSI1", "board"]
  table_name     = coalesce(var.table_name, var.name)
}

resource "aws_dynamodb_table" "this" {
  name         = local.table_name
  billing_mode = local.is_provisioned ? "PROVISIONED" : "PAY_PER_REQUEST"
  hash_key     = "PK"
  range_key    = "SK"

  table_class = var.infrequent_access ? "STANDARD_INFREQUENT_ACCESS" : "STANDARD"

  read_capacity  = try(var.provisioned.read_min, null)
  write_capacity = try(var.provisioned.write_min, null)

  # Keys are enough: a change says which log grew, and the rest is read from the table.
  stream_enabled   = true
  stream_view_type = var.stream_images ? "NEW_AND_OLD_IMAGES" : "KEYS_ONLY"

  deletion_protection_enabled = var.deletion_protection

  attribute {
    name = "PK"
    type = "S"
  }

  attribute {
    name = "SK"
    type = "S"
  }

  attribute {
    name = "GSI1PK"
    type = "S"
  }

  attribute {
    name = "GSI1SK"
    type = "S"
  }

  attribute {
    name = "board"
    type = "S"
  }

  attribute {
    name = "score"
    type = "N"
  }

  # What stands in the indexes is the catalog, which is small and changes seldom. Their capacity is
  # fixed: were it scaled, each apply would set it back, since Terraform cannot leave it out.
  global_secondary_index {
    name            = "GSI1"
    hash_key        = "GSI1PK"
    range_key       = "GSI1SK"
    projection_type = "ALL"
    read_capacity   = try(var.provisioned.index_read, null)
    write_capacity  = try(var.provisioned.index_write, null)

    dynamic "warm_throughput" {
      for_each = var.warm_throughput == null ? [] : [var.warm_throughput]

      content {
        read_units_per_second  = warm_throughput.value.read
        write_units_per_second = warm_throughput.value.write
      }
    }

    dynamic "on_demand_throughput" {
      for_each = var.on_demand_limits == null ? [] : [var.on_demand_limits]

      content {
        max_read_request_units  = on_demand_throughput.value.read
        max_write_request_units = on_demand_throughput.value.write
      }
    }
  }

  global_secondary_index {
    name            = "board"
    hash_key        = "board"
    range_key       = "score"
    projection_type = "ALL"
    read_capacity   = try(var.provisioned.index_read, null)
    write_capacity  = try(var.provisioned.index_write, null)

    dynamic "warm_throughput" {
      for_each = var.warm_throughput == null ? [] : [var.warm_throughput]

      content {
        read_units_per_second  = warm_throughput.value.read
        write_units_per_second = warm_throughput.value.write
      }
    }

    dynamic "on_demand_throughput" {
      for_each = var.on_demand_limits == null ? [] : [var.on_demand_limits]

      content {
        max_read_request_units  = on_demand_throughput.value.read
        max_write_request_units = on_demand_throughput.value.write
      }
    }
  }

  ttl {
    attribute_name = "expires_at"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = var.point_in_time_recovery
  }

  dynamic "warm_throughput" {
    for_each = var.warm_throughput == null ? [] : [var.warm_throughput]

    content {
      read_units_per_second  = warm_throughput.value.read
      write_units_per_second = warm_throughput.value.write
    }
  }

  dynamic "on_demand_throughput" {
    for_each = var.on_demand_limits == null ? [] : [var.on_demand_limits]

    content {
      max_read_request_units  = on_demand_throughput.value.read
      max_write_request_units = on_demand_throughput.value.write
    }
  }

  # Without this block the key is one that DynamoDB owns.
  dynamic "server_side_encryption" {
    for_each = var.use_kms_key ? [var.kms_key_arn] : []

    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value
    }
  }

  tags = merge(var.tags, { Name = local.table_name })

  lifecycle {
    # The data. Another name would make another table: set table_name to keep this one. docs/operating.md says how to
    # take another table in, and how to remove this one.
    prevent_destroy = true
    # Autoscaling moves them.
    ignore_changes = [read_capacity, write_capacity]
  }
}

resource "aws_appautoscaling_target" "table_read" {
  count = local.is_provisioned ? 1 : 0

  service_namespace  = "dynamodb"
  resource_id        = "table/${aws_dynamodb_table.this.name}"
  scalable_dimension = "dynamodb:table:ReadCapacityUnits"
  min_capacity       = var.provisioned.read_min
  max_capacity       = var.provisioned.read_max
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "table_read" {
  count = local.is_provisioned ? 1 : 0

  name               = "${var.name}-table-read"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.table_read[0].service_namespace
  resource_id        = aws_appautoscaling_target.table_read[0].resource_id
  scalable_dimension = aws_appautoscaling_target.table_read[0].scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value = var.provisioned.target_percent

    predefined_metric_specification {
      predefined_metric_type = "DynamoDBReadCapacityUtilization"
    }
  }
}

resource "aws_appautoscaling_target" "table_write" {
  count = local.is_provisioned ? 1 : 0

  service_namespace  = "dynamodb"
  resource_id        = "table/${aws_dynamodb_table.this.name}"
  scalable_dimension = "dynamodb:table:WriteCapacityUnits"
  min_capacity       = var.provisioned.write_min
  max_capacity       = var.provisioned.write_max
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "table_write" {
  count = local.is_provisioned ? 1 : 0

  name               = "${var.name}-table-write"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.table_write[0].service_namespace
  resource_id        = aws_appautoscaling_target.table_write[0].resource_id
  scalable_dimension = aws_appautoscaling_target.table_write[0].scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value = var.provisioned.target_percent

    predefined_metric_specification {
      predefined_metric_type = "DynamoDBWriteCapacityUtilization"
    }
  }
}

# A plan of AWS Backup, which is yours, takes the table.
resource "aws_backup_selection" "table" {
  count = var.backup == null ? 0 : 1

  name         = "${var.name}-table"
  plan_id      = var.backup.plan_id
  iam_role_arn = var.backup.role_arn
  resources    = [aws_dynamodb_table.this.arn]
}
