//! Dimensions by which the evaluations of a model are stored, beside by release.

use std::fmt;

use crate::{
    Error, Result,
    costs::short,
    fields::{FEATURE_PREFIX, TAG_PREFIX},
    id::check_name,
};

/// Maximum number of dimensions of a model.
pub const MAX_DIMENSIONS: usize = 8;

/// Maximum number of edges of the bins of a feature.
pub const MAX_DIMENSION_EDGES: usize = 16;

/// A column of predictions by whose values evaluations are stored: a tag, or a feature in bins.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// Name of the column: `tag.carrier`, `feature.distance`.
    pub column: String,
    /// Edges of the bins of a feature, in ascending order; empty for a tag.
    pub edges: Vec<f64>,
}

impl Dimension {
    /// Reads `tag.carrier`, or `feature.distance:500:1000` with the edges of the bins.
    ///
    /// # Errors
    /// `Invalid` if it is neither.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.trim().split(':');
        let column = words.next().unwrap_or_default();
        let wrong = |why: String| Error::invalid(format!("the dimension `{}` {why}", text.trim()));
        let edges: Vec<&str> = words.collect();
        let name = match (column.strip_prefix(TAG_PREFIX), column.strip_prefix(FEATURE_PREFIX)) {
            (Some(_), _) if !edges.is_empty() => {
                return Err(wrong("has edges, which only features have".into()));
            }
            (Some(name), _) => name,
            (None, Some(_)) if edges.is_empty() => {
                return Err(wrong(format!("lacks the edges of its bins, such as {column}:10:20")));
            }
            (None, Some(name)) => name,
            (None, None) => return Err(wrong("is neither tag.NAME nor feature.NAME:EDGE:EDGE".into())),
        };
        check_name(name)?;
        let number = |word: &&str| {
            let number = word.parse().ok().filter(|edge: &f64| edge.is_finite());
            // Adding zero turns negative zero into zero.
            number
                .map(|edge| edge + 0.0)
                .ok_or_else(|| wrong(format!("has the edge `{word}`, which is no number")))
        };
        let edges: Vec<f64> = edges.iter().map(number).collect::<Result<_>>()?;
        if !edges.is_sorted_by(|a, b| a < b) || edges.len() > MAX_DIMENSION_EDGES {
            return Err(wrong(format!(
                "should have edges that are each greater than the one before, at most {MAX_DIMENSION_EDGES}"
            )));
        }
        Ok(Self { column: column.to_owned(), edges })
    }

    /// Reads several dimensions, separated by commas.
    ///
    /// # Errors
    /// `Invalid` if one is invalid, a column occurs twice, or there are more than [`MAX_DIMENSIONS`].
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        let dimensions: Vec<Self> = text.split(',').map(Self::parse).collect::<Result<_>>()?;
        if dimensions.len() > MAX_DIMENSIONS {
            return Err(Error::invalid(format!("these are more than {MAX_DIMENSIONS} dimensions")));
        }
        for (at, dimension) in dimensions.iter().enumerate() {
            if dimensions[..at].iter().any(|before| before.column == dimension.column) {
                return Err(Error::invalid(format!("`{}` is a dimension twice", dimension.column)));
            }
        }
        Ok(dimensions)
    }

    /// Returns several dimensions as text.
    pub fn text_of(dimensions: &[Self]) -> String {
        dimensions.iter().map(Self::to_string).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.column)?;
        self.edges.iter().try_for_each(|edge| write!(f, ":{}", short(*edge)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_written_as_they_are_read() {
        let text = "tag.carrier,feature.distance:-1.5:0:100";
        let dimensions = Dimension::parse_all(text).unwrap();
        assert_eq!(dimensions[1].edges, [-1.5, 0.0, 100.0]);
        assert_eq!(Dimension::text_of(&dimensions), text);
        assert_eq!(Dimension::parse_all(" tag.a , tag.b").unwrap().len(), 2);
        let many: Vec<String> = (0..=MAX_DIMENSIONS).map(|at| format!("tag.t{at}")).collect();
        let many = many.join(",");
        for (text, why) in [
            ("", "the dimension `` is neither tag.NAME nor feature.NAME:EDGE:EDGE"),
            ("carrier", "the dimension `carrier` is neither tag.NAME nor feature.NAME:EDGE:EDGE"),
            ("tag.", "the name `` is empty"),
            ("tag.a:1", "the dimension `tag.a:1` has edges, which only features have"),
            ("feature.f", "the dimension `feature.f` lacks the edges of its bins, such as feature.f:10:20"),
            ("feature.f:x", "the dimension `feature.f:x` has the edge `x`, which is no number"),
            ("feature.f:inf", "the dimension `feature.f:inf` has the edge `inf`, which is no number"),
            (
                "feature.f:2:1",
                "the dimension `feature.f:2:1` should have edges that are each greater than the one before, at most 16",
            ),
            ("tag.a,tag.a", "`tag.a` is a dimension twice"),
            (&many, "these are more than 8 dimensions"),
        ] {
            assert_eq!(Dimension::parse_all(text).unwrap_err().to_string(), why);
        }
    }
}
