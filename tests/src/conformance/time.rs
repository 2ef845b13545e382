//! Time of an engine.

use event::Result;

use super::Subject;

/// The engine has it without a question, and its clock does not go back.
pub async fn an_engine_that_has_answered_tells_the_time(subject: &Subject) -> Result<()> {
    subject.table.get(&subject.key("p", "s")).await?;
    let first = subject.table.engine_time().expect("it has answered");
    subject.table.get(&subject.key("p", "s")).await?;
    assert!(subject.table.engine_time() >= Some(first));
    Ok(())
}
