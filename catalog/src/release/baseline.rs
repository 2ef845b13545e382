//! Named baselines of a release: days from which it is measured, beside the days of its training data. They stand in its item,
//! and may change.

use std::collections::BTreeMap;

use event::{Error, Result, Timestamp, Window, id::check_name};
use log::key::EntityId;

use super::Release;
use crate::{AnyEntity, Catalog};

/// Attribute of the item of a release.
const BASELINES: &str = "baselines";

/// Maximum baselines of a release.
pub const MAX_BASELINES: usize = 16;

/// Days of the baselines, by name.
pub type Baselines = BTreeMap<String, Window>;

impl Release {
    /// Days of one of its baselines.
    ///
    /// # Errors
    /// `NotFound`, naming the existing ones.
    pub fn baseline(&self, name: &str) -> Result<Window> {
        self.baselines.get(name).copied().ok_or_else(|| self.no_baseline(name))
    }

    fn no_baseline(&self, name: &str) -> Error {
        let release = &self.entity.name;
        let known: Vec<&str> = self.baselines.keys().map(String::as_str).collect();
        match known.is_empty() {
            true => {
                Error::not_found(format!("release `{release}` has no baseline `{name}`; it has none yet"))
            }
            false => Error::not_found(format!(
                "release `{release}` has no baseline `{name}`; there are {}",
                known.join(", ")
            )),
        }
    }
}

impl Catalog {
    /// Sets the days of a baseline of a release, or removes it when `days` is `None`. Returns all baselines of the release after
    /// that.
    ///
    /// # Errors
    /// `NotFound`; `Invalid`, when the name is not valid; `Conflict`, when it would have more than [`MAX_BASELINES`]; those of
    /// the table.
    pub async fn set_baseline(
        &self,
        at: &EntityId,
        name: &str,
        days: Option<Window>,
        now: Timestamp,
    ) -> Result<Baselines> {
        check_name(name)?;
        let change = |any: &mut AnyEntity| {
            let AnyEntity::Release(release) = any else {
                return Err(Error::invalid(format!("`{at}` is no release")));
            };
            match days {
                None if release.baselines.remove(name).is_some() => Ok(()),
                None => Err(release.no_baseline(name)),
                Some(_)
                    if release.baselines.len() >= MAX_BASELINES && !release.baselines.contains_key(name) =>
                {
                    Err(Error::conflict(format!(
                        "`{}` has {MAX_BASELINES} baselines, and no more are kept",
                        release.entity.name
                    )))
                }
                Some(days) => {
                    release.baselines.insert(name.to_owned(), days);
                    Ok(())
                }
            }
        };
        match self.change_own(at, (&[BASELINES], now), change).await? {
            AnyEntity::Release(release) => Ok(release.baselines),
            _ => Ok(Baselines::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{Clock, Task};
    use table::{item::Value, sqlite::SqliteTable};

    use super::*;
    use crate::ReleaseSpec;

    #[tokio::test]
    async fn baselines_stand_in_the_item_of_their_release() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap();
        let catalog = Catalog::new(Arc::new(table));
        let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let workspace = catalog.ensure_workspace("credit/prod", now).await.unwrap().entity.id;
        catalog.ensure_model(&workspace, "m", &Task::Regression, now).await.unwrap();
        let spec =
            ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
        let release = catalog.ensure_release(&workspace, &spec, now).await.unwrap();
        let at = EntityId::Release(workspace, release.entity.id);
        let days = |text: &str| Some(text.parse::<Window>().unwrap());
        let set = async |name: &str, days: Option<Window>| catalog.set_baseline(&at, name, days, now).await;
        set("spring", days("2026-04-01..2026-05-31")).await.unwrap();
        set("a-day", days("2026-06-01")).await.unwrap();
        let found = catalog.get(&at).await.unwrap();
        let golden = [("a-day", "2026-06-01"), ("spring", "2026-04-01..2026-05-31")];
        let golden = golden.map(|(name, days)| (name.to_owned(), Value::from(days)));
        assert_eq!(found.to_item().attributes[BASELINES], Value::M(golden.into()));
        assert_eq!(
            (AnyEntity::from_item(&found.to_item()).unwrap(), found.entity().version),
            (found.clone(), 3)
        );
        for wrong in [Value::from(1), Value::from("june")] {
            let wrong: BTreeMap<String, Value> = [("spring".to_owned(), wrong)].into();
            assert!(AnyEntity::from_item(&found.to_item().with(BASELINES, wrong)).is_err());
        }

        // A change without effect makes no new version.
        set("a-day", days("2026-06-01")).await.unwrap();
        assert_eq!(catalog.get(&at).await.unwrap().entity().version, 3);
        assert_eq!(
            set("a-day", None).await.unwrap(),
            [("spring".to_owned(), days("2026-04-01..2026-05-31").unwrap())].into()
        );
        let none = set("a-day", None).await.unwrap_err().to_string();
        assert_eq!(none, "release `v1` has no baseline `a-day`; there are spring");
        assert!(set("no name", days("2026-06-01")).await.is_err());
        for number in 1..MAX_BASELINES {
            set(&format!("b{number}"), days("2026-06-01")).await.unwrap();
        }
        let full = set("more", days("2026-06-01")).await.unwrap_err().to_string();
        assert_eq!(full, "`v1` has 16 baselines, and no more are kept");
        set("b1", days("2026-06-02")).await.unwrap();
    }
}
