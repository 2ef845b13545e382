//! Axis of all doubles, divided into places, the smallest cells.
//!
//! The doubles between two neighbouring powers of two, k powers below 1/2 or above 1, have 2^(52 - k/4) places, at
//! least 2^12. The places between 1/2 and 1 are those of the distance from 1, mirrored. All doubles together have 2^58
//! places, so few cells are lost to tails, however far they reach.

/// Exponent fields of 1/2 and of 1.
const HALF_FIELD: usize = 1022;
const ONE_FIELD: usize = 1023;

const FRACTION: u64 = (1 << 52) - 1;

/// Returns the number of dropped bits of the fraction, by the number of powers of two away.
const fn dropped(away: usize) -> u32 {
    let bits = away as u32 / 4;
    if bits > 40 { 40 } else { bits }
}

/// Number of places up to a number of powers of two away.
const AWAY: [i64; 1025] = {
    let mut places = [0; 1025];
    let mut away = 0;
    while away < 1024 {
        places[away + 1] = places[away] + (1 << (52 - dropped(away)));
        away += 1;
    }
    places
};

/// Place of 1/2: above all lesser numbers.
const HALF: i64 = AWAY[HALF_FIELD] + 1;

/// Place of 1: above all lesser numbers, the next of which is 2^-53 away.
const ONE: i64 = HALF + AWAY[53];

/// First places of the powers of two up to 1/2, by exponent field.
const BELOW: [i64; HALF_FIELD + 1] = {
    let mut places = [0; HALF_FIELD + 1];
    let mut field = 0;
    while field <= HALF_FIELD {
        places[field] = HALF - AWAY[HALF_FIELD - field];
        field += 1;
    }
    places
};

static PLACES_AWAY: [i64; 1025] = AWAY;
static PLACES_BELOW: [i64; HALF_FIELD + 1] = BELOW;

/// Returns the bits of a number in the order of numbers.
#[inline]
pub(super) fn ordered(number: f64) -> i64 {
    let bits = number.to_bits() as i64;
    // -1 - size for a number with the sign bit.
    (bits & i64::MAX) ^ (bits >> 63)
}

/// Returns the number with these ordered bits.
pub(super) fn number(ordered: i64) -> f64 {
    if ordered < 0 { -f64::from_bits(!ordered as u64) } else { f64::from_bits(ordered as u64) }
}

/// Returns the place of a nonzero number. It is monotonic.
#[inline]
pub(super) fn place(number: f64) -> i64 {
    let size = number.abs();
    let place = if size < 1.0 {
        let is_upper = size > 0.5;
        // The difference is exact.
        let place = lower(if is_upper { 1.0 - size } else { size });
        if is_upper { 2 * HALF - place } else { place }
    } else {
        let bits = size.to_bits();
        let away = (bits >> 52) as usize - ONE_FIELD;
        ONE + PLACES_AWAY[away] + ((bits & FRACTION) >> dropped(away)) as i64
    };
    if number < 0.0 { !place } else { place }
}

/// Returns the place of a number from 0 to 1/2.
#[inline]
fn lower(number: f64) -> i64 {
    let bits = number.to_bits();
    let field = ((bits >> 52) as usize).min(HALF_FIELD);
    PLACES_BELOW[field] + ((bits & FRACTION) >> dropped((HALF_FIELD - field).saturating_sub(1))) as i64
}

/// Returns the least number of a non-negative place: the inverse of [`place`].
pub(super) fn edge(place: u128) -> f64 {
    let place = i64::try_from(place).unwrap_or(i64::MAX);
    if place < HALF {
        return lower_edge(place);
    }
    if place < ONE {
        // The least number has the greatest distance, at which the next place begins.
        return 1.0 - lower_edge(2 * HALF - place + 1);
    }
    let away = PLACES_AWAY.partition_point(|from| *from <= place - ONE).saturating_sub(1);
    let fraction = ((place - ONE - PLACES_AWAY[away]) as u64) << dropped(away);
    let bits = ((away + ONE_FIELD) as u64) << 52 | fraction.min(FRACTION);
    if bits < f64::INFINITY.to_bits() { f64::from_bits(bits) } else { f64::MAX }
}

/// Returns the least number of a place up to a little more than that of 1/2.
fn lower_edge(place: i64) -> f64 {
    let field = PLACES_BELOW.partition_point(|from| *from <= place).saturating_sub(1);
    let fraction =
        ((place - PLACES_BELOW[field]).max(0) as u64) << dropped((HALF_FIELD - field).saturating_sub(1));
    f64::from_bits(((field as u64) << 52) + fraction)
}
