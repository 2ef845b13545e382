//! Byte planes: all first bytes, then all second bytes, and so on. Bytes of equal weight
//! resemble each other more than neighbours in a row do, so they compress better.

/// Splits the low `width` bytes of each value into planes, the lowest byte first.
pub(super) fn split(values: &[u64], width: usize) -> Vec<u8> {
    let mut planes = Vec::with_capacity(values.len() * width);
    for plane in 0..width {
        planes.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
    }
    planes
}

/// Inverts [`split`]: `planes` holds `width` planes of `rows` bytes, `width` at most 8. Each value is converted by
/// `of`.
pub(super) fn join<T>(planes: &[u8], rows: usize, width: usize, of: impl Fn(u64) -> T) -> Vec<T> {
    match width {
        1 => join_of::<1, T>(planes, rows, of),
        2 => join_of::<2, T>(planes, rows, of),
        3 => join_of::<3, T>(planes, rows, of),
        4 => join_of::<4, T>(planes, rows, of),
        5 => join_of::<5, T>(planes, rows, of),
        6 => join_of::<6, T>(planes, rows, of),
        7 => join_of::<7, T>(planes, rows, of),
        _ => join_of::<8, T>(planes, rows, of),
    }
}

/// Joins planes of a width known to the compiler, which allows building each value at once.
fn join_of<const WIDTH: usize, T>(planes: &[u8], rows: usize, of: impl Fn(u64) -> T) -> Vec<T> {
    let planes: [&[u8]; WIDTH] = std::array::from_fn(|plane| &planes[plane * rows..][..rows]);
    let value = |row: usize| {
        planes.iter().enumerate().fold(0, |value, (at, plane)| value | u64::from(plane[row]) << (8 * at))
    };
    (0..rows).map(|row| of(value(row))).collect()
}

/// Splits consecutive rows of `length` bytes each into `length` planes.
pub(super) fn split_rows(bytes: &[u8], length: usize) -> Vec<u8> {
    let rows = bytes.len() / length;
    let mut planes = vec![0; bytes.len()];
    for_tiles(rows, length, |row, column| {
        let tile: [u64; 8] = std::array::from_fn(|i| load(&bytes[(row + i) * length + column..]));
        for (i, plane) in transpose(tile).into_iter().enumerate() {
            planes[(column + i) * rows + row..][..8].copy_from_slice(&plane.to_le_bytes());
        }
    });
    for (row, column) in outside_tiles(rows, length) {
        planes[column * rows + row] = bytes[row * length + column];
    }
    planes
}

/// Inverts [`split_rows`].
pub(super) fn join_rows(planes: &[u8], rows: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; planes.len()];
    for_tiles(rows, length, |row, column| {
        let tile: [u64; 8] = std::array::from_fn(|i| load(&planes[(column + i) * rows + row..]));
        for (i, part) in transpose(tile).into_iter().enumerate() {
            bytes[(row + i) * length + column..][..8].copy_from_slice(&part.to_le_bytes());
        }
    });
    for (row, column) in outside_tiles(rows, length) {
        bytes[row * length + column] = planes[column * rows + row];
    }
    bytes
}

/// Calls `each` with the first row and column of every tile of 8 by 8 bytes. The last tile of a
/// row may overlap the one before it, so that only rows shorter than 8 bytes go byte by byte.
fn for_tiles(rows: usize, length: usize, mut each: impl FnMut(usize, usize)) {
    if length < 8 {
        return;
    }
    for row in (0..rows - rows % 8).step_by(8) {
        for column in (0..length - 7).step_by(8) {
            each(row, column);
        }
        if !length.is_multiple_of(8) {
            each(row, length - 8);
        }
    }
}

/// Returns the places that [`for_tiles`] leaves out.
fn outside_tiles(rows: usize, length: usize) -> impl Iterator<Item = (usize, usize)> {
    let first = if length < 8 { 0 } else { rows - rows % 8 };
    (first..rows).flat_map(move |row| (0..length).map(move |column| (row, column)))
}

fn load(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// Transposes 8 by 8 bytes: swaps the off-diagonal quarters of ever smaller squares.
fn transpose(mut tile: [u64; 8]) -> [u64; 8] {
    for (distance, shift, mask) in
        [(4, 32, 0x0000_0000_ffff_ffff), (2, 16, 0x0000_ffff_0000_ffff), (1, 8, 0x00ff_00ff_00ff_00ff_u64)]
    {
        for low in (0..8).filter(|low| low & distance == 0) {
            let high = low + distance;
            let swap = ((tile[low] >> shift) ^ tile[high]) & mask;
            tile[high] ^= swap;
            tile[low] ^= swap << shift;
        }
    }
    tile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_through_planes() {
        let values: Vec<u64> = (0..3000u64).map(|i| i.wrapping_mul(0x1234_5678_9abc_def1)).collect();
        for width in 1..=8 {
            let short: Vec<u64> = values.iter().map(|value| value >> (64 - 8 * width)).collect();
            assert_eq!(join(&split(&short, width), short.len(), width, |value| value), short, "{width}");
        }
        assert_eq!(split(&[0x0102, 0x0304], 2), [2, 4, 1, 3]);
    }

    #[test]
    fn rows_round_trip_for_every_shape() {
        for rows in [0, 1, 7, 8, 9, 40, 67] {
            for length in 1..=25 {
                let bytes: Vec<u8> = (0..rows * length).map(|i| (i * 31 + i / 7) as u8).collect();
                let planes = split_rows(&bytes, length);
                for (row, column) in [(0, 0), (rows / 2, length - 1)] {
                    if row < rows {
                        assert_eq!(planes[column * rows + row], bytes[row * length + column]);
                    }
                }
                assert_eq!(join_rows(&planes, rows, length), bytes, "{rows} rows of {length}");
            }
        }
    }
}
