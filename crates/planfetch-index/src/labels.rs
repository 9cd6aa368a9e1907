//! Labels as they come in, row by row.

use std::collections::HashMap;

/// What the label column holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LabelKind {
    /// Decided by the first row: [`Integer`](Self::Integer) when its label is an integer, else [`Name`](Self::Name).
    /// A later row of the other kind is then an error where integers are expected, and a name where names are.
    #[default]
    Auto,
    /// Integers in `0..=u32::MAX`, taken as they are.
    Integer,
    /// Names of classes, numbered from 0 in the order of their bytes.
    Name,
}

/// Labels, and the names of their classes where they have names.
#[derive(Debug)]
pub(crate) enum Labels {
    Undecided,
    Integers(Vec<u32>),
    Names(Names),
}

/// Names of classes with their numbers in order of appearance, and these numbers row by row.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<String, u32>,
    labels: Vec<u32>,
    // The name of the last row, which is often that of the next too, and its number.
    last: (String, u32),
}

impl Labels {
    pub(crate) fn new(kind: LabelKind) -> Self {
        match kind {
            LabelKind::Auto => Self::Undecided,
            LabelKind::Integer => Self::Integers(Vec::new()),
            LabelKind::Name => Self::Names(Names::default()),
        }
    }

    /// Takes the label of the next row, or says what is wrong with it.
    #[inline]
    pub(crate) fn push(&mut self, label: &str) -> Result<(), String> {
        match self {
            Self::Integers(labels) => match label.parse() {
                Ok(label) => labels.push(label),
                Err(_) => return Err(no_integer()),
            },
            Self::Names(names) => names.push(label)?,
            Self::Undecided => {
                let is_integer = label.parse::<i128>().is_ok();
                *self = Self::new(if is_integer { LabelKind::Integer } else { LabelKind::Name });
                return self.push(label);
            }
        }
        Ok(())
    }

    /// Takes the label of the next row and returns true where it is one of those that most rows have: a few digits, or
    /// the name of the row before. For others, [`push`](Self::push) has more to look at.
    #[inline]
    pub(crate) fn push_plain(&mut self, label: &[u8]) -> bool {
        match self {
            // Nine digits fit.
            Self::Integers(labels) if (1..=9).contains(&label.len()) && label.iter().all(u8::is_ascii_digit) => {
                labels.push(label.iter().fold(0, |number, digit| 10 * number + u32::from(digit - b'0')));
                true
            }
            // The first row has no row before it, and an empty name is none.
            Self::Names(names) if names.last.0.as_bytes() == label && !label.is_empty() => {
                names.labels.push(names.last.1);
                true
            }
            _ => false,
        }
    }

    /// Takes the label of the next row where it comes as a number.
    #[cfg(feature = "arrow")]
    pub(crate) fn push_integer(&mut self, label: i128) -> Result<(), String> {
        match self {
            Self::Integers(labels) => labels.push(u32::try_from(label).map_err(|_| no_integer())?),
            Self::Names(names) => names.push(&label.to_string())?,
            Self::Undecided => {
                *self = Self::new(LabelKind::Integer);
                return self.push_integer(label);
            }
        }
        Ok(())
    }

    /// Returns the labels, and the class names where labels are names.
    pub(crate) fn finish(self) -> (Vec<u32>, Vec<String>) {
        match self {
            Self::Undecided => (Vec::new(), Vec::new()),
            Self::Integers(labels) => (labels, Vec::new()),
            Self::Names(names) => names.finish(),
        }
    }
}

impl Names {
    fn push(&mut self, name: &str) -> Result<(), String> {
        if self.labels.is_empty() || self.last.0 != name {
            let number = match self.numbers.get(name) {
                Some(&number) => number,
                None => {
                    let number =
                        u32::try_from(self.numbers.len()).map_err(|_| "is one name of a class too many".to_owned())?;
                    self.numbers.insert(name.to_owned(), number);
                    number
                }
            };
            name.clone_into(&mut self.last.0);
            self.last.1 = number;
        }
        self.labels.push(self.last.1);
        Ok(())
    }

    fn finish(self) -> (Vec<u32>, Vec<String>) {
        // Numbers follow the order of appearance so far; that order would change with the order of the rows.
        let mut names: Vec<(String, u32)> = self.numbers.into_iter().collect();
        names.sort_unstable();
        let mut places = vec![0; names.len()];
        for (place, &(_, number)) in names.iter().enumerate() {
            // OK because there are as many places as names, whose numbers were checked to fit.
            places[number as usize] = place as u32;
        }
        let mut labels = self.labels;
        labels.iter_mut().for_each(|label| *label = places[*label as usize]);
        (labels, names.into_iter().map(|(name, _)| name).collect())
    }
}

fn no_integer() -> String {
    format!("is no integer in 0..={}; where labels are names of classes, set the kind of label to Name", u32::MAX)
}
