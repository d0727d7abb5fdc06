//! The model of a bucket: a sorted map.

use std::collections::BTreeMap;

use bolt::{Bucket, Damaged, Error, Item};

/// What a bucket holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) sequence: u64,
    pub(crate) things: BTreeMap<Vec<u8>, Thing>,
}

/// What a key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    Value(Vec<u8>),
    Bucket(Contents),
}

impl Contents {
    /// All that a bucket of a file holds, read in key order.
    pub(crate) fn read(bucket: &Bucket<'_>) -> Result<Contents, Damaged> {
        let mut things = BTreeMap::new();
        let mut cursor = bucket.cursor();
        while let Some(item) = cursor.next()? {
            let thing = match item.value {
                Some(value) => Thing::Value(value.to_vec()),
                None => {
                    let inner = bucket.bucket(item.key)?.expect("a bucket that the cursor names");
                    Thing::Bucket(Contents::read(&inner)?)
                }
            };
            things.insert(item.key.to_vec(), thing);
        }
        Ok(Contents { sequence: bucket.sequence(), things })
    }

    /// As a cursor shows it.
    pub(crate) fn items(&self) -> Vec<Item<'_>> {
        let item = |(key, thing)| Item { key, value: Thing::value(thing) };
        self.things.iter().map(|(key, thing)| item((key.as_slice(), thing))).collect()
    }

    /// Buckets and all, this one not counted, at any depth.
    pub(crate) fn count(&self) -> Count {
        let mut count = Count::default();
        self.add_to(&mut count);
        count
    }

    fn add_to(&self, count: &mut Count) {
        for thing in self.things.values() {
            match thing {
                Thing::Value(_) => count.pairs += 1,
                Thing::Bucket(inner) => {
                    count.buckets += 1;
                    inner.add_to(count);
                }
            }
        }
    }

    /// The bucket at the end of a path.
    pub(crate) fn bucket(&mut self, path: &[&[u8]]) -> Result<&mut Contents, Error> {
        path.iter().try_fold(self, |inside, name| match inside.things.get_mut(*name) {
            Some(Thing::Bucket(inner)) => Ok(inner),
            Some(Thing::Value(_)) => Err(Error::IncompatibleValue),
            None => Err(Error::BucketNotFound),
        })
    }

    /// The same, made with those around it if it is missing.
    pub(crate) fn bucket_if_missing(&mut self, path: &[&[u8]]) -> Result<&mut Contents, Error> {
        path.iter().try_fold(self, |inside, name| {
            let made = || Thing::Bucket(Contents::default());
            match inside.things.entry(name.to_vec()).or_insert_with(made) {
                Thing::Bucket(inner) => Ok(inner),
                Thing::Value(_) => Err(Error::IncompatibleValue),
            }
        })
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), Error> {
        match self.things.get(key) {
            Some(Thing::Bucket(_)) => Err(Error::IncompatibleValue),
            _ => {
                self.things.insert(key.to_vec(), Thing::Value(value));
                Ok(())
            }
        }
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        match self.things.get(key) {
            Some(Thing::Bucket(_)) => Err(Error::IncompatibleValue),
            _ => Ok(self.things.remove(key).is_some()),
        }
    }

    pub(crate) fn delete_bucket(&mut self, name: &[u8]) -> Result<(), Error> {
        match self.things.get(name) {
            None => Err(Error::BucketNotFound),
            Some(Thing::Value(_)) => Err(Error::IncompatibleValue),
            Some(Thing::Bucket(_)) => {
                self.things.remove(name);
                Ok(())
            }
        }
    }
}

impl Thing {
    fn value(&self) -> Option<&[u8]> {
        match self {
            Thing::Value(value) => Some(value),
            Thing::Bucket(_) => None,
        }
    }
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) pairs: u64,
    pub(crate) buckets: u64,
}
