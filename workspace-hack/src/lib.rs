//! No code: this package only asks for features (see its `Cargo.toml`).
