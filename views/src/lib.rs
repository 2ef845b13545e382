//! Columns of strings as arrays of views, made in one pass.
//!
//! An array of views (Arrow's `Utf8View`) has 16 bytes for each string: a string of up to 12 bytes is inside its
//! view, the view of a longer one has its position. Polars checks each view that it is given, by a call a row, which
//! takes longer than making the view. Here the views are made from [`Strings`], which are valid by construction, so
//! that check is left out: that is the one `unsafe` block of the workspace.
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

/// Number of possible codes.
const CODES: usize = u8::MAX as usize + 1;

/// A column of strings that grows by those of segments.
#[derive(Default)]
pub struct Texts {
    /// View of each string: the default one, which is that of the empty string, or one made by [`extend`].
    views: Vec<View>,
    /// Texts returned by [`extend`], each at the index that was passed to it. They do not change.
    buffers: Vec<Vec<u8>>,
    /// Number of bytes of all strings. Polars needs it, and would otherwise look at each view.
    bytes: usize,
}

impl Texts {
    /// Creates an empty column, with room for `rows` strings.
    pub fn with_capacity(rows: usize) -> Self {
        Self { views: Vec::with_capacity(rows), buffers: Vec::new(), bytes: 0 }
    }

    /// Adds strings.
    pub fn push(&mut self, strings: Strings) {
        self.bytes += strings.text().len();
        let text = extend(&mut self.views, strings, self.buffers.len());
        self.buffers.extend(text);
    }

    /// Adds strings of a dictionary; a code without an entry gives an empty one.
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

    /// Adds `rows` empty strings.
    pub fn push_empty(&mut self, rows: usize) {
        self.views.resize(self.views.len() + rows, View::default());
    }

    /// Returns the strings as an array, with the nulls of `validity`, or none.
    ///
    /// # Panics
    /// Panics if `validity` has another number of rows.
    pub fn finish(self, validity: Option<Bitmap>) -> Utf8ViewArray {
        let Self { views, buffers, bytes } = self;
        assert!(validity.as_ref().is_none_or(|validity| validity.len() == views.len()), "a bit for each row");
        let of_buffers = buffers.iter().map(Vec::len).sum();
        let bytes = validity.is_none().then_some(bytes);
        let buffers: Vec<_> = buffers.into_iter().map(Into::into).collect();
        let dtype = ArrowDataType::Utf8View;
        // SAFETY: each view is the default one, that of the empty string, or was made by `extend` from the bytes
        // between two ends of `Strings`: these do not decrease and are boundaries of characters, so the bytes are
        // UTF-8. If they are not inside the view, the text that contains them is the buffer of the index that the
        // view names, because `extend` was given the number of buffers, and no buffer was changed or removed since.
        // There is a bit of validity for each view. `bytes` is the length of all strings, `of_buffers` that of the
        // buffers; polars leaves out null strings, and counts itself if there may be some.
        unsafe {
            Utf8ViewArray::new_unchecked(dtype, views.into(), buffers.into(), validity, bytes, of_buffers)
        }
    }
}

/// Adds a view of each string. Returns their text if one of them is not inside its view; it must become the buffer of
/// this index.
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

/// Returns the view of a string that fits into it, made from whole words: the call that copies a few bytes would take
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

    /// Possible column of a segment.
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

    /// Checks that the array of `pieces` is the one that polars makes of these strings, and passes its checks; also
    /// with every `every`-th string null.
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

    /// Run by Miri too: see `tests/run`.
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
