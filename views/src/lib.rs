//! Columns of strings as arrays of views, made in one pass.
//!
//! An array of views (Arrow's `Utf8View`) has 16 bytes for each string: one of up to 12 bytes stands in its view, of a longer one the view
//! says where it stands. Polars checks each view that it is given, by a call a row, which takes longer than making the view. Here the
//! views are made of [`Strings`], which are strings by construction, so that check is left out: that is the one `unsafe` block of
//! the workspace.
//!
//! ```
//! use event::columns::Strings;
//! use almanac_views::Texts;
//!
//! let mut keys = Texts::with_capacity(3);
//! keys.push(["loan-1", "loan-2"].into_iter().collect::<Strings>());
//! keys.push_empty(1);
//! let array = keys.finish(Some([true, true, false].into_iter().collect()));
//! assert_eq!(array.iter().collect::<Vec<_>>(), [Some("loan-1"), Some("loan-2"), None]);
//! ```

use event::columns::{Coded, Strings};
use polars_arrow::{
    array::{Utf8ViewArray, View},
    bitmap::Bitmap,
    datatypes::ArrowDataType,
};

/// How many codes there may be.
const CODES: usize = u8::MAX as usize + 1;

/// A column of strings that grows by those of segments.
#[derive(Default)]
pub struct Texts {
    /// One for each string: the default one, which is that of the empty string, or one that [`extend`] made.
    views: Vec<View>,
    /// The texts that [`extend`] gave back, each at the index that it was told. They do not change.
    buffers: Vec<Vec<u8>>,
    /// How many bytes all strings have together. Polars asks for it, and would look at each view to know it.
    bytes: usize,
}

impl Texts {
    /// No strings yet, with room for so many.
    pub fn with_capacity(rows: usize) -> Self {
        Self { views: Vec::with_capacity(rows), buffers: Vec::new(), bytes: 0 }
    }

    /// Adds strings.
    pub fn push(&mut self, strings: Strings) {
        self.bytes += strings.text().len();
        let text = extend(&mut self.views, strings, self.buffers.len());
        self.buffers.extend(text);
    }

    /// Adds strings that are drawn from a few; an empty one where a code is that of none.
    pub fn push_coded(&mut self, coded: Coded) {
        let mut of_codes = Vec::with_capacity(CODES);
        let text = extend(&mut of_codes, coded.dictionary, self.buffers.len());
        self.buffers.extend(text);
        of_codes.resize(CODES.max(of_codes.len()), View::default());
        let of_codes: &[View; CODES] = of_codes.first_chunk().expect("it was made as long");
        self.bytes +=
            coded.codes.iter().map(|code| of_codes[usize::from(*code)].length as usize).sum::<usize>();
        self.views.extend(coded.codes.iter().map(|code| of_codes[usize::from(*code)]));
    }

    /// Adds so many empty strings.
    pub fn push_empty(&mut self, rows: usize) {
        self.views.resize(self.views.len() + rows, View::default());
    }

    /// The strings as an array, of which those are null that `validity` says, or none.
    ///
    /// # Panics
    /// When `validity` is of another number of rows.
    pub fn finish(self, validity: Option<Bitmap>) -> Utf8ViewArray {
        let Self { views, buffers, bytes } = self;
        assert!(validity.as_ref().is_none_or(|validity| validity.len() == views.len()), "a bit for each row");
        let of_buffers = buffers.iter().map(Vec::len).sum();
        let bytes = validity.is_none().then_some(bytes);
        let buffers: Vec<_> = buffers.into_iter().map(Into::into).collect();
        let dtype = ArrowDataType::Utf8View;
        // SAFETY: each view is the default one, that of the empty string, or was made by `extend` of the bytes between two ends of
        // `Strings`: these do not decrease and are boundaries of characters, so the bytes are UTF-8. Where they do not stand in the view,
        // the text that they stand in is the buffer of the index that the view names, as `extend` was told how many there were,
        // and no buffer was changed or taken away since. There is a bit of validity for each view. `bytes` is how long all
        // strings are, `of_buffers` how long the buffers; polars leaves out strings that are null, and counts where there may be some.
        unsafe {
            Utf8ViewArray::new_unchecked(dtype, views.into(), buffers.into(), validity, bytes, of_buffers)
        }
    }
}

/// Adds a view of each string. Their text comes back if one of them does not stand in its view; it is to be the buffer of this index.
fn extend(views: &mut Vec<View>, strings: Strings, buffer: usize) -> Option<Vec<u8>> {
    let buffer = u32::try_from(buffer).expect("fewer columns than memory has");
    let (text, ends) = strings.into_parts();
    let text = text.into_bytes();
    let (mut start, mut longest) = (0, 0);
    views.extend(ends.iter().map(|&end| {
        longest = longest.max(end - start);
        let view = short_view(&text, start, end)
            .unwrap_or_else(|| View::new_from_bytes(&text[start as usize..end as usize], buffer, start));
        start = end;
        view
    }));
    (longest > View::MAX_INLINE_SIZE).then_some(text)
}

/// The view of a string that fits into it, made of whole words: the call that copies a few bytes would take
/// longer than all the rest. `None` for a longer string, and for the last ones of the text.
#[inline]
fn short_view(text: &[u8], start: u32, end: u32) -> Option<View> {
    let length = end - start;
    if length > View::MAX_INLINE_SIZE || cfg!(target_endian = "big") {
        return None;
    }
    let bytes = text.get(start as usize..)?.first_chunk()?;
    let bytes = u128::from_le_bytes(*bytes) & ((1 << (8 * length)) - 1);
    Some(View::from(bytes << 32 | u128::from(length)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strings(all: &[String]) -> Strings {
        all.iter().map(String::as_str).collect()
    }

    #[test]
    fn short_texts_are_not_kept() {
        let mut texts = Texts::with_capacity(4);
        texts.push(strings(&["twelve bytes".to_owned(), String::new()]));
        let dictionary = strings(&["ü".to_owned()]);
        texts.push_coded(Coded { codes: vec![0, 0], dictionary });
        assert!(texts.buffers.is_empty());
        assert_eq!(texts.finish(None).values_iter().collect::<Vec<_>>(), ["twelve bytes", "", "ü", "ü"]);
    }

    #[test]
    #[should_panic(expected = "a bit for each row")]
    fn a_validity_of_other_rows_is_refused() {
        let mut texts = Texts::default();
        texts.push_empty(2);
        _ = texts.finish(Some([true].into_iter().collect()));
    }

    /// What a column of a segment may be.
    #[derive(Clone, Debug)]
    enum Piece {
        Texts(Vec<String>),
        Coded(Vec<String>, Vec<u8>),
        Empty(usize),
    }

    fn piece() -> impl Strategy<Value = Piece> {
        let text = || prop_oneof!["[a-zäß€]{0,8}", "\\PC{0,40}"];
        prop_oneof![
            prop::collection::vec(text(), 0..20).prop_map(Piece::Texts),
            (prop::collection::vec(text(), 0..20), prop::collection::vec(0..25u8, 0..20))
                .prop_map(|(texts, codes)| Piece::Coded(texts, codes)),
            (0..5usize).prop_map(Piece::Empty),
        ]
    }

    /// The array of `pieces` is the one that polars makes of the same strings, and stands up to its checks; also where every so many strings
    /// is null.
    fn assert_as_of_polars(pieces: Vec<Piece>, every: usize) {
        let (mut texts, mut expected) = (Texts::default(), Vec::<String>::new());
        for piece in pieces {
            match piece {
                Piece::Texts(all) => {
                    texts.push(strings(&all));
                    expected.extend(all);
                }
                Piece::Coded(all, codes) => {
                    let dictionary = strings(&all);
                    let text = |code: &u8| all.get(usize::from(*code)).cloned().unwrap_or_default();
                    expected.extend(codes.iter().map(text));
                    texts.push_coded(Coded { codes, dictionary });
                }
                Piece::Empty(rows) => {
                    texts.push_empty(rows);
                    expected.resize(expected.len() + rows, String::new());
                }
            }
        }
        let validity: Bitmap = (0..expected.len()).map(|row| !row.is_multiple_of(every)).collect();
        for validity in [None, Some(validity)] {
            let (views, buffers) = (texts.views.clone(), texts.buffers.clone());
            let array = Texts { views, buffers, bytes: texts.bytes }.finish(validity.clone());
            let sums = (array.total_bytes_len(), array.total_buffer_len());
            assert!(array.values_iter().eq(expected.iter().map(String::as_str)));
            let (views, buffers) = (array.views().clone(), array.data_buffers().clone());
            let checked = Utf8ViewArray::try_new(ArrowDataType::Utf8View, views, buffers, validity);
            let checked = checked.unwrap();
            assert_eq!(checked, array);
            assert_eq!(
                sums,
                (checked.total_bytes_len(), checked.total_buffer_len()),
                "as polars counts them"
            );
        }
    }

    /// What Miri looks at: `tests/run` lets it run these tests.
    #[test]
    fn strings_of_every_length_are_those_of_polars() {
        let short = ["", "a", "zwölf Bytes", "twelve bytes", "ß"].map(str::to_owned);
        let long = ["thirteen byte", "€€€€€", "", "a text that stands in a buffer"].map(str::to_owned);
        for all in [short.to_vec(), long.to_vec(), [short.as_slice(), &long].concat()] {
            let codes = vec![2, 0, 0, 200, 1];
            let coded = Piece::Coded(all.clone(), codes);
            let pieces = [Piece::Empty(2), Piece::Texts(all.clone()), coded, Piece::Texts(all)];
            assert_as_of_polars(pieces.to_vec(), 2);
        }
    }

    proptest! {
        // Miri takes minutes to make strings of these patterns.
        #[test]
        #[cfg_attr(miri, ignore)]
        fn arrays_are_those_of_polars(pieces in prop::collection::vec(piece(), 0..6), every in 1..5usize) {
            assert_as_of_polars(pieces, every);
        }
    }
}
