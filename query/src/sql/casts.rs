//! Types of casts in statements. Whole numbers have 64 bits and a sign under any name, so that computations do not wrap around.

use sqlparser::ast::{DataType, Expr};

/// Types of bytes, which text formats cannot write.
const BYTES: &[&str] = &["blob", "byte", "binary", "varbinary"];

/// Prefixes of the names of unsigned types.
const UNSIGNED: &[&str] = &["uint", "utinyint", "usmallint", "ubigint", "uhugeint", "unsigned"];

/// A type of 8 bits, by a name that the parser does not know.
const INT1: &str = "int1";

/// Returns the reason why a statement cannot cast to a type, if there is one.
pub(super) fn wrong(kind: &DataType) -> Option<String> {
    let name = kind.to_string().to_ascii_lowercase();
    if BYTES.iter().any(|bytes| name.contains(bytes)) {
        return Some(format!("there is no type {kind}; cast to text"));
    }
    let is_unsigned = UNSIGNED.iter().any(|start| name.starts_with(start)) || name.ends_with(" unsigned");
    is_unsigned.then(|| format!("there is no type {kind}; cast to bigint"))
}

/// Widens a cast to a whole number of fewer than 64 bits to 64 bits.
pub(super) fn as_in_sql(cast: &Expr) -> Option<Expr> {
    let Expr::Cast { data_type, .. } = cast else { return None };
    if !is_narrow(data_type) {
        return None;
    }
    let mut wide = cast.clone();
    if let Expr::Cast { data_type, .. } = &mut wide {
        *data_type = DataType::BigInt(None);
    }
    Some(wide)
}

fn is_narrow(kind: &DataType) -> bool {
    match kind {
        DataType::TinyInt(_)
        | DataType::SmallInt(_)
        | DataType::Int2(_)
        | DataType::Int16
        | DataType::MediumInt(_)
        | DataType::Int(_)
        | DataType::Int4(_)
        | DataType::Int32
        | DataType::Integer(_) => true,
        DataType::Custom(name, _) => name.to_string().eq_ignore_ascii_case(INT1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::admit::admit;

    #[test]
    fn whole_numbers_have_64_bits_and_a_sign() {
        let of = |kind: &str| {
            admit(&format!("select cast(value as {kind}) as n from predictions where day = '2026-06-01'"))
        };
        for kind in ["integer", "int", "smallint", "tinyint", "int4", "int1", "bigint"] {
            let text = of(kind).unwrap().text;
            assert!(text.starts_with("SELECT CAST(value AS BIGINT) AS n"), "{kind}: {text}");
        }
        for kind in ["int unsigned", "ubigint", "uint8", "utinyint"] {
            let refused = of(kind).unwrap_err().to_string();
            assert!(refused.ends_with("cast to bigint"), "{kind}: {refused}");
        }
        assert!(of("double").unwrap().text.starts_with("SELECT CAST(value AS DOUBLE) AS n"));
    }
}
