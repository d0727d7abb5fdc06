//! The model of a bucket: a sorted map.

use std::collections::BTreeMap;

use bolt::{Bucket, CorruptPage, Error, Item};

/// The contents of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) sequence: u64,
    pub(crate) entries: BTreeMap<Vec<u8>, ModelValue>,
}

/// The value of a key: bytes or a nested bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelValue {
    Value(Vec<u8>),
    Bucket(Contents),
}

impl Contents {
    /// Reads the contents of a bucket, in key order.
    pub(crate) fn read(bucket: &Bucket<'_>) -> Result<Contents, CorruptPage> {
        let mut entries = BTreeMap::new();
        let mut cursor = bucket.cursor();
        while let Some(item) = cursor.next()? {
            let entry = match item.value {
                Some(value) => ModelValue::Value(value.to_vec()),
                None => {
                    let inner = bucket.bucket(item.key)?.expect("the cursor listed this bucket");
                    ModelValue::Bucket(Contents::read(&inner)?)
                }
            };
            entries.insert(item.key.to_vec(), entry);
        }
        Ok(Contents { sequence: bucket.sequence(), entries })
    }

    /// The items in the order of a cursor.
    pub(crate) fn items(&self) -> Vec<Item<'_>> {
        let item = |(key, entry)| Item { key, value: ModelValue::value(entry) };
        self.entries.iter().map(|(key, entry)| item((key.as_slice(), entry))).collect()
    }

    /// Counts nested buckets and pairs at any depth, without this bucket.
    pub(crate) fn count(&self) -> Count {
        let mut count = Count::default();
        self.add_to(&mut count);
        count
    }

    fn add_to(&self, count: &mut Count) {
        for entry in self.entries.values() {
            match entry {
                ModelValue::Value(_) => count.pairs += 1,
                ModelValue::Bucket(inner) => {
                    count.buckets += 1;
                    inner.add_to(count);
                }
            }
        }
    }

    /// Returns the bucket at a path.
    pub(crate) fn bucket(&mut self, path: &[&[u8]]) -> Result<&mut Contents, Error> {
        path.iter().try_fold(self, |inside, name| match inside.entries.get_mut(*name) {
            Some(ModelValue::Bucket(inner)) => Ok(inner),
            Some(ModelValue::Value(_)) => Err(Error::IncompatibleValue),
            None => Err(Error::BucketNotFound),
        })
    }

    /// Returns the bucket at a path, creating missing ones along it.
    pub(crate) fn bucket_if_missing(&mut self, path: &[&[u8]]) -> Result<&mut Contents, Error> {
        path.iter().try_fold(self, |inside, name| {
            let made = || ModelValue::Bucket(Contents::default());
            match inside.entries.entry(name.to_vec()).or_insert_with(made) {
                ModelValue::Bucket(inner) => Ok(inner),
                ModelValue::Value(_) => Err(Error::IncompatibleValue),
            }
        })
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), Error> {
        match self.entries.get(key) {
            Some(ModelValue::Bucket(_)) => Err(Error::IncompatibleValue),
            _ => {
                self.entries.insert(key.to_vec(), ModelValue::Value(value));
                Ok(())
            }
        }
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        match self.entries.get(key) {
            Some(ModelValue::Bucket(_)) => Err(Error::IncompatibleValue),
            _ => Ok(self.entries.remove(key).is_some()),
        }
    }

    pub(crate) fn delete_bucket(&mut self, name: &[u8]) -> Result<(), Error> {
        match self.entries.get(name) {
            None => Err(Error::BucketNotFound),
            Some(ModelValue::Value(_)) => Err(Error::IncompatibleValue),
            Some(ModelValue::Bucket(_)) => {
                self.entries.remove(name);
                Ok(())
            }
        }
    }
}

impl ModelValue {
    fn value(&self) -> Option<&[u8]> {
        match self {
            ModelValue::Value(value) => Some(value),
            ModelValue::Bucket(_) => None,
        }
    }
}

/// Number of buckets and pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) pairs: u64,
    pub(crate) buckets: u64,
}
