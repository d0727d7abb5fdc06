//! Unwinds a sample: from its registers and stack bytes to the addresses of its calls.

use env::{CpuSample, Registers};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};

use crate::elf::Elf;
use crate::mapped_files::MappedFile;

/// The most calls of a stack that are kept.
pub(crate) const DEPTH_MAX: usize = 256;

/// Unwinds stacks by the unwind tables of the binary and its libraries, which stripping leaves in
/// place.
pub(crate) struct StackUnwinder {
    unwinder: native::Unwinder,
    cache: native::Cache,
}

impl StackUnwinder {
    /// Reads the unwind tables of all files.
    pub(crate) fn new(files: &[MappedFile]) -> StackUnwinder {
        let mut unwinder = native::Unwinder::new();
        for file in files {
            if let Some(elf) = Elf::read(file) {
                unwinder.add_module(module(file, elf));
            }
        }
        StackUnwinder { unwinder, cache: native::Cache::new() }
    }

    /// Returns an address within each call, innermost first. A stack that cannot be followed
    /// further ends early.
    pub(crate) fn unwind(&mut self, sample: &CpuSample<'_>) -> Vec<u64> {
        let sp = sample.registers.sp;
        let mut read_stack = |address: u64| {
            let offset = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(drop)?;
            let bytes = sample.stack.get(offset..).and_then(<[u8]>::first_chunk).ok_or(())?;
            Ok(u64::from_ne_bytes(*bytes))
        };
        let registers = native::registers(&sample.registers);
        let mut frames = self.unwinder.iter_frames(
            sample.registers.pc,
            registers,
            &mut self.cache,
            &mut read_stack,
        );
        let mut addresses = Vec::new();
        while addresses.len() < DEPTH_MAX {
            match frames.next() {
                Ok(Some(frame)) => addresses.push(frame.address_for_lookup()),
                Ok(None) | Err(_) => break,
            }
        }
        addresses
    }
}

fn module(file: &MappedFile, elf: Elf) -> Module<Vec<u8>> {
    let split = |section: Option<crate::elf::Section>| {
        section.map(|section| (section.addresses, section.bytes)).unzip()
    };
    let (eh_frame_svma, eh_frame) = split(elf.eh_frame);
    let (eh_frame_hdr_svma, eh_frame_hdr) = split(elf.eh_frame_hdr);
    let sections = ExplicitModuleSectionInfo {
        text_svma: elf.text,
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        ..Default::default()
    };
    Module::new(file.path.clone(), file.addresses.clone(), elf.bias, sections)
}

/// The unwinder of this machine. The sampler runs on no others, so that any will do for them.
#[cfg(not(target_arch = "aarch64"))]
mod native {
    use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};

    pub(super) type Unwinder = UnwinderX86_64<Vec<u8>>;
    pub(super) type Cache = CacheX86_64;

    pub(super) fn registers(registers: &super::Registers) -> UnwindRegsX86_64 {
        UnwindRegsX86_64::new(registers.pc, registers.sp, registers.fp)
    }
}

#[cfg(target_arch = "aarch64")]
mod native {
    use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};

    pub(super) type Unwinder = UnwinderAarch64<Vec<u8>>;
    pub(super) type Cache = CacheAarch64;

    pub(super) fn registers(registers: &super::Registers) -> UnwindRegsAarch64 {
        UnwindRegsAarch64::new(registers.lr, registers.sp, registers.fp)
    }
}
