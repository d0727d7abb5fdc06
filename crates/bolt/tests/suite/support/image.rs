//! The raw bytes of a file, to inspect and tamper with, independent of the crate under test.

/// Size of a page header and of an element, in bytes.
pub(crate) const HEADER: usize = 16;
pub(crate) const ELEMENT: usize = 16;

pub(crate) const BRANCH: u16 = 1;
pub(crate) const LEAF: u16 = 2;
pub(crate) const FREELIST: u16 = 16;

/// Offsets of meta page fields after the page header.
const MAGIC: u32 = 0xED0C_DAED;
pub(crate) const META_ROOT: usize = 16;
pub(crate) const META_FREELIST: usize = 32;
pub(crate) const META_HIGH_WATER: usize = 40;
pub(crate) const META_TXID: usize = 48;
const META_CHECKSUM: usize = 56;

/// The bytes of a file.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    pub(crate) page_size: usize,
}

impl Image {
    /// Wraps the bytes of a consistent file.
    pub(crate) fn new(bytes: Vec<u8>) -> Image {
        let page_size = usize::try_from(u32_at(&bytes, HEADER + 8)).unwrap();
        assert_eq!(u32_at(&bytes, HEADER), MAGIC, "the first meta page is valid");
        Image { bytes, page_size }
    }

    /// Index of the newer meta page.
    pub(crate) fn newest_meta(&self) -> usize {
        let txid = |slot| u64_at(&self.bytes, slot * self.page_size + HEADER + META_TXID);
        usize::from(txid(1) > txid(0))
    }

    /// Reads a field of the newer meta page.
    pub(crate) fn meta(&self, field: usize) -> u64 {
        u64_at(&self.bytes, self.newest_meta() * self.page_size + HEADER + field)
    }

    /// Reports whether a meta page's checksum is correct.
    pub(crate) fn is_meta_valid(&self, slot: usize) -> bool {
        let meta = &self.bytes[slot * self.page_size + HEADER..];
        u64_at(meta, META_CHECKSUM) == fnv1a(&meta[..META_CHECKSUM])
    }

    /// Sets a field of both meta pages, and corrects their checksums.
    pub(crate) fn set_meta(&mut self, field: usize, to: u64) {
        for slot in 0..2 {
            let at = slot * self.page_size + HEADER + field;
            self.bytes[at..at + 8].copy_from_slice(&to.to_le_bytes());
        }
        fix_checksums(&mut self.bytes, self.page_size);
    }

    /// Number of pages of the saved freelist.
    pub(crate) fn freelist_pages(&self) -> u64 {
        match self.meta(META_FREELIST) {
            u64::MAX => 0,
            id => u64::from(self.overflow(id)) + 1,
        }
    }

    pub(crate) fn page(&self, id: u64) -> usize {
        usize::try_from(id).unwrap() * self.page_size
    }

    pub(crate) fn flags(&self, id: u64) -> u16 {
        let at = self.page(id) + 8;
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    pub(crate) fn count(&self, id: u64) -> usize {
        let at = self.page(id) + 10;
        usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    pub(crate) fn overflow(&self, id: u64) -> u32 {
        u32_at(&self.bytes, self.page(id) + 12)
    }

    /// Writes a page with the given elements.
    pub(crate) fn write_page(&mut self, id: u64, elements: &[Element<'_>]) {
        let at = self.page(id);
        let page = encode_page(id, elements, self.page_size);
        if self.bytes.len() < at + page.len() {
            self.bytes.resize(at + page.len(), 0);
        }
        self.bytes[at..at + page.len()].copy_from_slice(&page);
    }
}

/// An element of a handcrafted page.
#[derive(Clone, Debug)]
pub(crate) enum Element<'a> {
    Child { key: &'a [u8], page: u64 },
    Pair { key: &'a [u8], value: Vec<u8> },
    Bucket { key: &'a [u8], root: u64 },
    InlineBucket { key: &'a [u8], page: Vec<u8> },
}

impl<'a> Element<'a> {
    fn key(&self) -> &'a [u8] {
        match self {
            Element::Child { key, .. }
            | Element::Pair { key, .. }
            | Element::Bucket { key, .. }
            | Element::InlineBucket { key, .. } => key,
        }
    }

    fn value(&self) -> Vec<u8> {
        match self {
            Element::Child { .. } => Vec::new(),
            Element::Pair { value, .. } => value.clone(),
            Element::Bucket { root, .. } => [root.to_le_bytes(), [0; 8]].concat(),
            Element::InlineBucket { page, .. } => [&[0; 16], page.as_slice()].concat(),
        }
    }

    fn numbers(&self, pos: u32, key: u32, value: u32) -> [u8; ELEMENT] {
        let fields = match self {
            Element::Child { page, .. } => {
                let page = page.to_le_bytes();
                [pos.to_le_bytes(), key.to_le_bytes(), first_half(page), second_half(page)]
            }
            _ => {
                let is_bucket = !matches!(self, Element::Pair { .. });
                [u32::from(is_bucket), pos, key, value].map(u32::to_le_bytes)
            }
        };
        fields.concat().try_into().unwrap()
    }
}

/// Encodes a page of elements, with as many overflow pages as needed.
pub(crate) fn encode_page(id: u64, elements: &[Element<'_>], page_size: usize) -> Vec<u8> {
    let is_branch = matches!(elements.first(), Some(Element::Child { .. }));
    let mut numbers = Vec::new();
    let mut data = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let (key, value) = (element.key(), element.value());
        let pos = (elements.len() - index) * ELEMENT + data.len();
        let short = |len: usize| u32::try_from(len).unwrap();
        numbers.extend(element.numbers(short(pos), short(key.len()), short(value.len())));
        data.extend_from_slice(key);
        data.extend(value);
    }
    let len = HEADER + numbers.len() + data.len();
    let overflow = if id == 0 { 0 } else { len.div_ceil(page_size) - 1 };
    let mut page = id.to_le_bytes().to_vec();
    page.extend(if is_branch { BRANCH } else { LEAF }.to_le_bytes());
    page.extend(u16::try_from(elements.len()).unwrap().to_le_bytes());
    page.extend(u32::try_from(overflow).unwrap().to_le_bytes());
    page.extend(numbers);
    page.extend(data);
    if id != 0 {
        page.resize((overflow + 1) * page_size, 0);
    }
    page
}

/// Corrects the checksums of both meta pages, whatever else is wrong with them.
pub(crate) fn fix_checksums(bytes: &mut [u8], page_size: usize) {
    for slot in 0..2 {
        let start = slot * page_size + HEADER;
        if let Some(meta) = bytes.get_mut(start..start + META_CHECKSUM + 8) {
            let checksum = fnv1a(&meta[..META_CHECKSUM]).to_le_bytes();
            meta[META_CHECKSUM..].copy_from_slice(&checksum);
        }
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn first_half(bytes: [u8; 8]) -> [u8; 4] {
    *bytes.first_chunk().unwrap()
}

fn second_half(bytes: [u8; 8]) -> [u8; 4] {
    *bytes.last_chunk().unwrap()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}
