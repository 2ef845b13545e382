//! A metric, with its name and help, and handles of it.

use std::fmt::Write as _;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, with_recorder};

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A number that only grows, from 0 at the start of the process.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// A histogram: the number of values up to each of these bounds, with their count and sum.
    Histogram(&'static [f64]),
}

impl Shape {
    /// Returns its name in the text format of Prometheus.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Counter => "counter",
            Shape::Gauge => "gauge",
            Shape::Histogram(_) => "histogram",
        }
    }
}

/// The processes that have a metric: a process exposes the metrics of the parts that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Every process that listens.
    Every,
    /// The role `ingest`.
    Ingest,
    /// The role `projector`.
    Projector,
    /// The role `query`.
    Query,
    /// Every process on a SQLite file.
    Sqlite,
    /// Every process on DynamoDB.
    Dynamodb,
    /// Every process on Linux.
    Linux,
}

impl Of {
    /// Returns the title of its section in the list.
    pub fn title(self) -> &'static str {
        match self {
            Of::Every => "Every process",
            Of::Ingest => "Role ingest",
            Of::Projector => "Role projector",
            Of::Query => "Role query",
            Of::Sqlite => "On a SQLite file",
            Of::Dynamodb => "On DynamoDB",
            Of::Linux => "The process itself, on Linux",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instrument {
    /// Its name, with the unit: `_seconds`, `_bytes`; a counter ends in `_total`.
    pub name: &'static str,
    /// Its type.
    pub shape: Shape,
    /// The processes that have it.
    pub of: Of,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Its help text, a sentence.
    pub help: &'static str,
}

const METADATA: Metadata<'static> = Metadata::new("almanac", Level::INFO, None);

impl Instrument {
    /// Returns a handle of this counter with these values of its labels.
    pub fn counter<const N: usize>(&self, values: [&str; N]) -> Counter {
        debug_assert_eq!(self.shape, Shape::Counter, "{}", self.name);
        with_recorder(|recorder| recorder.register_counter(&self.key(values), &METADATA))
    }

    /// Returns a handle of this gauge with these values of its labels.
    pub fn gauge<const N: usize>(&self, values: [&str; N]) -> Gauge {
        debug_assert_eq!(self.shape, Shape::Gauge, "{}", self.name);
        with_recorder(|recorder| recorder.register_gauge(&self.key(values), &METADATA))
    }

    /// Returns a handle of this histogram with these values of its labels.
    pub fn histogram<const N: usize>(&self, values: [&str; N]) -> Histogram {
        debug_assert!(matches!(self.shape, Shape::Histogram(_)), "{}", self.name);
        with_recorder(|recorder| recorder.register_histogram(&self.key(values), &METADATA))
    }

    /// Registers the help text with the recorder.
    pub fn describe(&self) {
        let (name, help) = (self.name.into(), self.help.into());
        with_recorder(|recorder| match self.shape {
            Shape::Counter => recorder.describe_counter(name, None, help),
            Shape::Gauge => recorder.describe_gauge(name, None, help),
            Shape::Histogram(_) => recorder.describe_histogram(name, None, help),
        });
    }

    /// Writes its series as text in the format of Prometheus, with its type and help: for series that come and go, which a
    /// recorder would keep for ever.
    pub fn text<'a, const N: usize>(&self, series: impl Iterator<Item = ([&'a str; N], f64)>) -> String {
        debug_assert_eq!(self.labels.len(), N, "{} has the labels {:?}", self.name, self.labels);
        let Self { name, help, .. } = self;
        let mut text = format!("# HELP {name} {help}\n# TYPE {name} {}\n", self.shape.name());
        for (values, value) in series {
            let labels = self.labels.iter().zip(values).map(|(label, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                format!("{label}=\"{value}\"")
            });
            let labels = labels.collect::<Vec<_>>().join(",");
            // Writing to a `String` never fails.
            _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
        text
    }

    fn key<const N: usize>(&self, values: [&str; N]) -> Key {
        debug_assert_eq!(self.labels.len(), N, "{} has the labels {:?}", self.name, self.labels);
        let labels = self.labels.iter().zip(values);
        Key::from_parts(
            self.name,
            labels.map(|(name, value)| Label::new(*name, value.to_owned())).collect::<Vec<_>>(),
        )
    }
}

/// A count of something under way in a gauge, until it is dropped.
#[derive(Debug)]
pub struct InFlight(Gauge);

impl InFlight {
    /// Counts one more under way.
    pub fn begin(gauge: &Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_that_come_and_go_are_text() {
        let metric = Instrument {
            name: "almanac_x",
            shape: Shape::Gauge,
            of: Of::Every,
            labels: &["workspace", "rule"],
            help: "Of x.",
        };
        let head = "# HELP almanac_x Of x.\n# TYPE almanac_x gauge\n";
        assert_eq!(metric.text::<2>(std::iter::empty()), head);
        let series = [(["credit/prod", "few"], 1.0), (["a\"b\\c\nd", ""], 0.5)];
        let wanted = format!(
            "{head}almanac_x{{workspace=\"credit/prod\",rule=\"few\"}} 1\n\
             almanac_x{{workspace=\"a\\\"b\\\\c\\nd\",rule=\"\"}} 0.5\n"
        );
        assert_eq!(metric.text(series.into_iter()), wanted);
    }
}
