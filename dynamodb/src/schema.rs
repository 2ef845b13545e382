//! Required shape of the table, and the problems of one without it.

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::create_table::builders::CreateTableFluentBuilder,
    types::{
        AttributeDefinition, BillingMode, GlobalSecondaryIndex, GlobalSecondaryIndexDescription, IndexStatus,
        KeySchemaElement, KeyType, Projection, ProjectionType, ScalarAttributeType, StreamSpecification,
        StreamViewType, TableDescription, TableStatus, TimeToLiveDescription, TimeToLiveStatus,
    },
};
use table::Index;

/// Attribute by which DynamoDB removes expired items.
pub(super) const TTL_ATTRIBUTE: &str = "expires_at";

/// Key of the table or of an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Along {
    /// Name of the index; `None` for the table.
    pub(super) index: Option<&'static str>,
    /// Attribute of the partition, which is text.
    pub(super) hash: &'static str,
    /// Attribute of the order.
    pub(super) range: &'static str,
    /// True if that attribute is a number.
    range_is_number: bool,
}

/// Returns the key that a query reads along.
pub(super) fn along(index: Index) -> Along {
    let (index, hash, range, range_is_number) = match index {
        Index::Table => (None, "PK", "SK", false),
        Index::Gsi1 => (Some("GSI1"), "GSI1PK", "GSI1SK", false),
        Index::Board => (Some("board"), "board", "score", true),
    };
    Along { index, hash, range, range_is_number }
}

impl Along {
    fn attributes(self) -> [(&'static str, KeyType, ScalarAttributeType); 2] {
        let sort = if self.range_is_number { ScalarAttributeType::N } else { ScalarAttributeType::S };
        [(self.hash, KeyType::Hash, ScalarAttributeType::S), (self.range, KeyType::Range, sort)]
    }

    /// Formats the key for people.
    fn text(self) -> String {
        self.attributes().map(|(name, _, scalar)| format!("{name} {scalar}")).join(", ")
    }

    fn schema(self) -> Result<Vec<KeySchemaElement>, BuildError> {
        let element =
            |(name, role, _)| KeySchemaElement::builder().attribute_name(name).key_type(role).build();
        self.attributes().into_iter().map(element).collect()
    }
}

const ALL: [Index; 3] = [Index::Table, Index::Gsi1, Index::Board];

/// Adds the schema to the request that creates the table.
pub(super) fn create(mut request: CreateTableFluentBuilder) -> Result<CreateTableFluentBuilder, BuildError> {
    for along in ALL.map(along) {
        for (name, _, scalar) in along.attributes() {
            let attribute =
                AttributeDefinition::builder().attribute_name(name).attribute_type(scalar).build()?;
            request = request.attribute_definitions(attribute);
        }
        request = match along.index {
            None => request.set_key_schema(Some(along.schema()?)),
            Some(index) => request.global_secondary_indexes(
                GlobalSecondaryIndex::builder()
                    .index_name(index)
                    .set_key_schema(Some(along.schema()?))
                    .projection(Projection::builder().projection_type(ProjectionType::All).build())
                    .build()?,
            ),
        };
    }
    Ok(request.billing_mode(BillingMode::PayPerRequest).stream_specification(stream()?))
}

/// Returns the required stream of the table.
pub(super) fn stream() -> Result<StreamSpecification, BuildError> {
    StreamSpecification::builder().stream_enabled(true).stream_view_type(StreamViewType::KeysOnly).build()
}

/// Returns the reason why a table belongs to another application and must not be touched; `None` for Almanac's.
pub(super) fn foreign(table: &TableDescription) -> Option<String> {
    let key = key_text(table.key_schema(), table.attribute_definitions());
    let wanted = along(Index::Table).text();
    (key != wanted).then(|| {
        format!(
            "it has the key ({key}) and not ({wanted}), so it is not a table of Almanac; name another one"
        )
    })
}

/// Returns the problems of a table; empty if it can be used.
pub(super) fn problems(table: &TableDescription, ttl: Option<&TimeToLiveDescription>) -> Vec<String> {
    if let Some(foreign) = foreign(table) {
        return vec![foreign];
    }
    let mut problems = Vec::new();
    match table.table_status() {
        Some(TableStatus::Active | TableStatus::Updating) => {}
        Some(TableStatus::Creating) => {
            problems.push("it is still being created; try again in a minute".to_owned())
        }
        Some(status) => problems.push(format!("its status is {status}, so it cannot be used")),
        None => problems.push("it has no status".to_owned()),
    }
    for along in [Index::Gsi1, Index::Board].map(along) {
        let name = along.index.unwrap_or_default();
        let found = table.global_secondary_indexes().iter().find(|index| index.index_name() == Some(name));
        problems.extend(index_problem(found, along, table.attribute_definitions()));
    }
    // Global tables need both images; only the keys are read.
    let views = [&StreamViewType::KeysOnly, &StreamViewType::NewAndOldImages];
    if !stream_view(table).is_some_and(|view| views.contains(&view)) {
        let found = match stream_view(table) {
            Some(view) => {
                let what = format!("its stream is {view}, and neither KEYS_ONLY nor NEW_AND_OLD_IMAGES");
                format!("{what}; turn it off, then `almanac admin table create` makes the right one")
            }
            None => "it has no stream; `almanac admin table create` turns it on".to_owned(),
        };
        problems.push(found);
    }
    if ttl.is_some_and(|ttl| !removes_expired(ttl)) {
        let what = format!("it does not remove what has expired (time to live on `{TTL_ATTRIBUTE}`)");
        problems.push(format!("{what}; `almanac admin table create` turns that on"));
    }
    problems
}

/// Returns the view of the stream, if it is on.
pub(super) fn stream_view(table: &TableDescription) -> Option<&StreamViewType> {
    table
        .stream_specification()
        .filter(|stream| stream.stream_enabled())
        .and_then(StreamSpecification::stream_view_type)
}

/// Returns whether the time to live is on, or is just being turned on (which takes up to an hour).
pub(super) fn removes_expired(ttl: &TimeToLiveDescription) -> bool {
    let on =
        matches!(ttl.time_to_live_status(), Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling));
    on && ttl.attribute_name() == Some(TTL_ATTRIBUTE)
}

/// Formats a key for people, such as `PK S, SK S`.
pub(super) fn key_text(schema: &[KeySchemaElement], attributes: &[AttributeDefinition]) -> String {
    let mut schema: Vec<_> = schema.iter().collect();
    schema.sort_by_key(|element| *element.key_type() != KeyType::Hash);
    let part = |element: &KeySchemaElement| {
        let name = element.attribute_name();
        let attribute = attributes.iter().find(|attribute| attribute.attribute_name() == name);
        format!("{name} {}", attribute.map_or("?", |attribute| attribute.attribute_type().as_str()))
    };
    schema.into_iter().map(part).collect::<Vec<_>>().join(", ")
}

fn index_problem(
    found: Option<&GlobalSecondaryIndexDescription>,
    along: Along,
    attributes: &[AttributeDefinition],
) -> Option<String> {
    let (name, wanted) = (along.index.unwrap_or_default(), along.text());
    let Some(found) = found else {
        return Some(format!(
            "it has no index `{name}` ({wanted}, all attributes); add it, or create the table again"
        ));
    };
    let key = key_text(found.key_schema(), attributes);
    let is_whole = found.projection().and_then(Projection::projection_type) == Some(&ProjectionType::All);
    if key != wanted {
        Some(format!("its index `{name}` has the key ({key}) and not ({wanted}); create the index again"))
    } else if !is_whole {
        Some(format!("its index `{name}` does not hold all attributes; create the index again"))
    } else if !matches!(found.index_status(), Some(IndexStatus::Active | IndexStatus::Updating)) {
        Some(format!("its index `{name}` is still being built; try again in a minute"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a table as created by `create`.
    fn table() -> TableDescription {
        let attribute = |(name, _, scalar)| {
            AttributeDefinition::builder().attribute_name(name).attribute_type(scalar).build().unwrap()
        };
        let index = |along: Along| {
            GlobalSecondaryIndexDescription::builder()
                .index_name(along.index.unwrap())
                .set_key_schema(Some(along.schema().unwrap()))
                .projection(Projection::builder().projection_type(ProjectionType::All).build())
                .index_status(IndexStatus::Active)
                .build()
        };
        TableDescription::builder()
            .set_attribute_definitions(Some(
                ALL.iter().flat_map(|&index| along(index).attributes()).map(attribute).collect(),
            ))
            .set_key_schema(Some(along(Index::Table).schema().unwrap()))
            .global_secondary_indexes(index(along(Index::Gsi1)))
            .global_secondary_indexes(index(along(Index::Board)))
            .table_status(TableStatus::Active)
            .stream_specification(stream().unwrap())
            .build()
    }

    fn only_problem(table: &TableDescription) -> String {
        let problems = problems(table, None);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    }

    #[test]
    fn the_right_table_has_no_problem() {
        assert!(problems(&table(), None).is_empty());
        let ttl = TimeToLiveDescription::builder().attribute_name(TTL_ATTRIBUTE);
        let enabling = ttl.clone().time_to_live_status(TimeToLiveStatus::Enabling).build();
        assert!(problems(&table(), Some(&enabling)).is_empty());
        let disabled = ttl.time_to_live_status(TimeToLiveStatus::Disabled).build();
        assert!(problems(&table(), Some(&disabled))[0].contains("time to live on `expires_at`"));
    }

    #[test]
    fn foreign_table_is_recognized_by_its_key_schema() {
        let mut other = table();
        let id = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash).build().unwrap();
        other.key_schema = Some(vec![id]);
        other.stream_specification = None;
        assert_eq!(
            only_problem(&other),
            "it has the key (id ?) and not (PK S, SK S), so it is not a table of Almanac; name another one"
        );
    }

    #[test]
    fn each_problem_says_what_to_do() {
        let mut wrong = table();
        wrong.stream_specification = None;
        assert_eq!(only_problem(&wrong), "it has no stream; `almanac admin table create` turns it on");
        let images =
            StreamSpecification::builder().stream_enabled(true).stream_view_type(StreamViewType::NewImage);
        wrong.stream_specification = Some(images.build().unwrap());
        assert!(only_problem(&wrong).starts_with("its stream is NEW_IMAGE, and neither KEYS_ONLY nor"));
        let images = StreamSpecification::builder().stream_enabled(true);
        let images = images.stream_view_type(StreamViewType::NewAndOldImages);
        wrong.stream_specification = Some(images.build().unwrap());
        assert_eq!(problems(&wrong, None), [""; 0]);

        let mut wrong = table();
        wrong.table_status = Some(TableStatus::Deleting);
        assert_eq!(only_problem(&wrong), "its status is DELETING, so it cannot be used");

        let mut wrong = table();
        wrong.global_secondary_indexes.as_mut().unwrap().remove(1);
        assert!(
            only_problem(&wrong).starts_with("it has no index `board` (board S, score N, all attributes)")
        );

        let mut wrong = table();
        let index = &mut wrong.global_secondary_indexes.as_mut().unwrap()[0];
        index.projection = Some(Projection::builder().projection_type(ProjectionType::KeysOnly).build());
        assert!(only_problem(&wrong).starts_with("its index `GSI1` does not hold all attributes"));
        let index = &mut wrong.global_secondary_indexes.as_mut().unwrap()[0];
        index.key_schema.as_mut().unwrap().pop();
        assert!(only_problem(&wrong).starts_with("its index `GSI1` has the key (GSI1PK S) and not"));
    }
}
