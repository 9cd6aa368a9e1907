//! Labels as another index has them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::IndexError;
use crate::sample_index::SampleIndex;
use crate::table::nearest;
use crate::uri::shorten;

impl SampleIndex {
    /// Returns the index with the classes of `other`: what is validated has the labels of what was trained.
    ///
    /// Each index numbers the names of its classes by itself, from 0 in the order of their bytes. A validation set in
    /// which a single class has no sample would so be measured against other classes than the model has learnt. Here,
    /// classes are matched by name: a sample of `"dog"` gets the label that `"dog"` has in `other`, and class names and
    /// number of classes are those of `other`, which may have classes that this index lacks.
    ///
    /// Labels of an index without class names are kept as they are, and only have to be less than the number of classes
    /// of `other`. That they mean the same classes can't be seen by them: where both were numbered by names once, such
    /// as by listing two folders, read the column with the names instead.
    ///
    /// # Errors
    ///
    /// [`IndexError::Class`] when a sample is of a class that `other` has not, and [`IndexError::Mixed`] when this
    /// index names its classes and `other` does not. A class without samples need not be there.
    ///
    /// # Example: a class that validation lacks
    ///
    /// ```
    /// use planfetch_index::{CsvSettings, SampleIndex, read_index_csv};
    ///
    /// let read = |csv: &str| read_index_csv(csv.as_bytes(), "csv", &CsvSettings::default());
    /// let train = read("s3_uri,label\ns3://b/1,ape\ns3://b/2,cat\ns3://b/3,dog\n")?;
    /// let valid = read("s3_uri,label\ns3://b/4,dog\ns3://b/5,cat\n")?;
    /// // By itself, the cat is class 0, which is that of apes in training.
    /// assert_eq!(valid.labels(), [1, 0]);
    ///
    /// let valid = valid.with_classes_of(&train)?;
    /// assert_eq!(valid.labels(), [2, 1]);
    /// assert_eq!(valid.class_names(), ["ape", "cat", "dog"]);
    ///
    /// let error = read("s3_uri,label\ns3://b/6,Dog\n")?.with_classes_of(&train).expect_err("nobody learnt it");
    /// assert!(error.to_string().starts_with("class \"Dog\" of row 0, \"s3://b/6\", is none of the 3 classes"));
    /// assert!(error.to_string().contains("perhaps \"dog\""));
    /// # Ok::<(), planfetch_index::IndexError>(())
    /// ```
    pub fn with_classes_of(&self, other: &Self) -> Result<Self, IndexError> {
        let labels = if self.class_names.is_empty() {
            self.check_labels(other)?;
            Arc::clone(&self.labels)
        } else {
            Arc::new(self.labels_by_name(other)?)
        };
        Ok(Self { labels, class_names: Arc::clone(&other.class_names), num_classes: other.num_classes, ..self.clone() })
    }

    /// Checks that each label is one of `other`.
    fn check_labels(&self, other: &Self) -> Result<(), IndexError> {
        // Of the largest label there is, the number of classes is not one more.
        let is_class = |label: u32| label < other.num_classes || other.num_classes == u32::MAX;
        match self.labels.iter().position(|&label| !is_class(label)) {
            Some(row) => {
                let problem = format!(
                    "is none of the {} classes of the other index, which are numbered from 0; correct the label, leave \
                     the row out, or add samples of the class to the other index",
                    other.num_classes
                );
                Err(self.no_class(row, self.labels[row].to_string(), problem))
            }
            None => Ok(()),
        }
    }

    /// Returns the labels that the classes of the samples have in `other`.
    fn labels_by_name(&self, other: &Self) -> Result<Vec<u32>, IndexError> {
        if other.class_names.is_empty() {
            return Err(IndexError::Mixed {
                problem: format!("this one names its classes, and the other has {} without names", other.num_classes),
            });
        }
        let mut places = HashMap::with_capacity(other.class_names.len());
        for (name, label) in other.class_names.iter().zip(0..) {
            // Where a program named two classes alike, the first is meant.
            places.entry(name).or_insert(label);
        }
        let renamed: Vec<Option<u32>> = self.class_names.iter().map(|name| places.get(name).copied()).collect();
        let mut labels = Vec::with_capacity(self.labels.len());
        for (row, &label) in self.labels.iter().enumerate() {
            // OK because an index with class names has one for each of its labels.
            match renamed[label as usize] {
                Some(label) => labels.push(label),
                None => {
                    let name = &self.class_names[label as usize];
                    let perhaps = nearest(&other.class_names, name);
                    let perhaps = perhaps.map_or(String::new(), |name| format!(", perhaps {name:?}"));
                    let problem = format!(
                        "is none of the {} classes of the other index{perhaps}; correct the name, leave its rows out, \
                         or add samples of the class to the other index",
                        other.class_names.len()
                    );
                    return Err(self.no_class(row, name.clone(), problem));
                }
            }
        }
        Ok(labels)
    }

    fn no_class(&self, row: usize, class: String, problem: String) -> IndexError {
        let uri = shorten(&self.uri(row).unwrap_or_default());
        // OK because an index fits in 64 bits.
        IndexError::Class { class: shorten(&class), row: row as u64, uri, problem }
    }
}
