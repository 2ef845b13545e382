//! The breakdown of rollups.

use event::{Error, Kind, Result, fields::TAG_PREFIX};

use crate::dataset::Dataset;

/// The breakdown of rollups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By release.
    #[default]
    Release,
    /// By metric, and within it by release.
    Metric,
    /// By the values of a tag, given as its column: `tag.carrier`.
    Tag(String),
    /// By feature, and within it by release; of this feature alone, if there is a name: `distance`.
    Feature(Option<String>),
}

impl By {
    pub(crate) fn parse(what: Dataset, word: Option<&str>) -> Result<Self> {
        let Some(word) = word else { return Ok(Self::default()) };
        // See `Breakdown`.
        if what != Dataset::Rollups {
            return Ok(Self::default());
        }
        // Names in the breakdown never have a comma.
        if word.contains(',') {
            return Err(Error::invalid(format!(
                "group-by: rollups are broken down by one column alone, and `{word}` names several; ask once for each"
            )));
        }
        match word {
            "release" => Ok(Self::Release),
            "metric" => Ok(Self::Metric),
            _ if word.strip_prefix(TAG_PREFIX).is_some_and(|tag| !tag.is_empty()) => {
                Ok(Self::Tag(word.to_owned()))
            }
            "feature" => Ok(Self::Feature(None)),
            _ => match Kind::Predictions.sketched(word) {
                Some(feature) => Ok(Self::Feature(Some(feature.to_owned()))),
                None => Err(Error::invalid(format!(
                    "group-by: `{word}` is none of release, metric, tag.NAME, feature, feature.NAME"
                ))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollups_are_by_one_column() {
        let by = |word| By::parse(Dataset::Rollups, Some(word));
        assert_eq!(by("tag.carrier").unwrap(), By::Tag("tag.carrier".to_owned()));
        assert_eq!(by("feature.age").unwrap(), By::Feature(Some("age".to_owned())));
        for several in ["tag.carrier,tag.origin", "release,metric", "feature.age,feature.age"] {
            let error = by(several).unwrap_err().to_string();
            assert!(error.contains("by one column alone") && error.contains(several), "{error}");
        }
        // Evaluations are broken down by several columns, which `Breakdown` parses.
        assert_eq!(By::parse(Dataset::Evaluations, Some("tag.a,tag.b")).unwrap(), By::Release);
    }
}
