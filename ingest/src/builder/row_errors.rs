//! What is wrong with which row: collected in any order, reported in the order of the rows.

use event::RowProblem;

use super::row::FieldError;

/// How many messages a row of an import keeps.
const MAX_ROW_MESSAGES: usize = 16;

/// One thing that is wrong.
#[derive(Clone, Debug)]
struct Note {
    row: u64,
    stage: usize,
    error: FieldError,
}

/// How many notes one source may still keep. A source notes its rows in their order, so what it
/// drops comes after all that is listed anyway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    /// Nothing more is kept.
    pub(crate) fn spent() -> Self {
        Self(0)
    }
}

/// What is wrong with rows.
#[derive(Clone, Debug)]
pub(crate) struct RowErrors {
    /// How many an answer lists; `None` when all bad rows are handed out.
    listed: Option<usize>,
    notes: Vec<Note>,
    /// The rows of the builder that are bad.
    bad: Vec<bool>,
    /// How many rows never came into the builder.
    unread: usize,
}

impl RowErrors {
    pub(crate) fn new(listed: Option<usize>) -> Self {
        Self { listed, notes: Vec::new(), bad: Vec::new(), unread: 0 }
    }

    /// The budget of a source.
    pub(crate) fn budget(&self) -> Budget {
        Budget(self.listed.unwrap_or(usize::MAX))
    }

    /// Notes what is wrong with row `at` of the builder, which has the number `row` in the request.
    pub(crate) fn note(
        &mut self,
        budget: &mut Budget,
        (at, row): (usize, u64),
        stage: usize,
        error: impl FnOnce() -> FieldError,
    ) {
        self.mark(at);
        self.list_only(budget, row, stage, error);
    }

    /// Marks row `at` of the builder as bad.
    pub(crate) fn mark(&mut self, at: usize) {
        if self.bad.len() <= at {
            self.bad.resize(at + 1, false);
        }
        self.bad[at] = true;
    }

    /// Notes a row that never came into the builder.
    pub(crate) fn note_unread(&mut self, budget: &mut Budget, row: u64, error: FieldError) {
        self.unread += 1;
        self.list_only(budget, row, 0, || error);
    }

    /// Notes what is wrong with a row that will be marked as bad by itself.
    pub(crate) fn list_only(
        &mut self,
        budget: &mut Budget,
        row: u64,
        stage: usize,
        error: impl FnOnce() -> FieldError,
    ) {
        if budget.0 > 0 {
            budget.0 -= 1;
            self.notes.push(Note { row, stage, error: error() });
        }
    }

    /// Whether row `at` of the builder is bad.
    #[inline]
    pub(crate) fn is_bad(&self, at: usize) -> bool {
        self.bad.get(at).is_some_and(|bad| *bad)
    }

    /// How many rows are bad.
    pub(crate) fn count(&self) -> usize {
        self.unread + self.bad.iter().filter(|bad| **bad).count()
    }

    /// How many rows never came into the builder.
    pub(crate) fn count_unread(&self) -> usize {
        self.unread
    }

    /// Whether a row of the builder is bad.
    pub(crate) fn any_in_draft(&self) -> bool {
        self.bad.contains(&true)
    }

    /// What is wrong, in the order of the rows and in a row in that of its fields.
    pub(crate) fn list(mut self) -> Vec<RowProblem> {
        self.notes.sort_by_key(|note| (note.row, note.stage));
        let listed = self.listed.unwrap_or(usize::MAX);
        let problem =
            |note: Note| RowProblem { row: note.row, field: note.error.field, message: note.error.message };
        self.notes.into_iter().take(listed).map(problem).collect()
    }

    /// Each bad row with what is wrong with it, at most [`MAX_ROW_MESSAGES`] messages.
    pub(crate) fn rows(self) -> Vec<(u64, Vec<RowProblem>)> {
        let mut rows: Vec<(u64, Vec<RowProblem>)> = Vec::new();
        for problem in self.list() {
            match rows.last_mut() {
                Some((row, problems)) if *row == problem.row => {
                    if problems.len() < MAX_ROW_MESSAGES {
                        problems.push(problem);
                    }
                }
                _ => rows.push((problem.row, vec![problem])),
            }
        }
        rows
    }
}
