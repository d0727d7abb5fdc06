//! The model of a bucket: a sorted map.

use std::collections::BTreeMap;

use bolt::{Bucket, CorruptPage, Error, Item};

/// The contents of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) sequence: u64,
    pub(crate) things: BTreeMap<Vec<u8>, ModelValue>,
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
        let mut things = BTreeMap::new();
        let mut cursor = bucket.cursor();
        while let Some(item) = cursor.next()? {
            let thing = match item.value {
                Some(value) => ModelValue::Value(value.to_vec()),
                None => {
                    let inner = bucket.bucket(item.key)?.expect("the cursor listed this bucket");
                    ModelValue::Bucket(Contents::read(&inner)?)
                }
            };
            things.insert(item.key.to_vec(), thing);
        }
        Ok(Contents { sequence: bucket.sequence(), things })
    }

    /// The items in the order of a cursor.
    pub(crate) fn items(&self) -> Vec<Item<'_>> {
        let item = |(key, thing)| Item { key, value: ModelValue::value(thing) };
        self.things.iter().map(|(key, thing)| item((key.as_slice(), thing))).collect()
    }

    /// Counts nested buckets and pairs at any depth, without this bucket.
    pub(crate) fn count(&self) -> Count {
        let mut count = Count::default();
        self.add_to(&mut count);
        count
    }

    fn add_to(&self, count: &mut Count) {
        for thing in self.things.values() {
            match thing {
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
        path.iter().try_fold(self, |inside, name| match inside.things.get_mut(*name) {
            Some(ModelValue::Bucket(inner)) => Ok(inner),
            Some(ModelValue::Value(_)) => Err(Error::IncompatibleValue),
            None => Err(Error::BucketNotFound),
        })
    }

    /// Returns the bucket at a path, creating missing ones along it.
    pub(crate) fn bucket_if_missing(&mut self, path: &[&[u8]]) -> Result<&mut Contents, Error> {
        path.iter().try_fold(self, |inside, name| {
            let made = || ModelValue::Bucket(Contents::default());
            match inside.things.entry(name.to_vec()).or_insert_with(made) {
                ModelValue::Bucket(inner) => Ok(inner),
                ModelValue::Value(_) => Err(Error::IncompatibleValue),
            }
        })
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), Error> {
        match self.things.get(key) {
            Some(ModelValue::Bucket(_)) => Err(Error::IncompatibleValue),
            _ => {
                self.things.insert(key.to_vec(), ModelValue::Value(value));
                Ok(())
            }
        }
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        match self.things.get(key) {
            Some(ModelValue::Bucket(_)) => Err(Error::IncompatibleValue),
            _ => Ok(self.things.remove(key).is_some()),
        }
    }

    pub(crate) fn delete_bucket(&mut self, name: &[u8]) -> Result<(), Error> {
        match self.things.get(name) {
            None => Err(Error::BucketNotFound),
            Some(ModelValue::Value(_)) => Err(Error::IncompatibleValue),
            Some(ModelValue::Bucket(_)) => {
                self.things.remove(name);
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
