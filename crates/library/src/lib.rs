//! Shared libraries of native functions: what an ELF file exports and needs, read without running any of its code.
//!
//! A program learns here that a file is no library of this machine, or has no such function, before a task is submitted.
//! Workers load libraries with the system's dynamic linker, which reads the same tables.
//!
//! Guarantee: any bytes give a description or an error.
#![forbid(unsafe_code)]

use object::elf::{self, FileHeader64};
use object::endian::Endianness;
use object::read::elf::{FileHeader as _, ProgramHeader as _, Sym as _};
use thiserror::Error;

/// The machine that this program was compiled for, as ELF files name it.
const MACHINE: Option<(elf::Machine, &str)> = if cfg!(target_arch = "x86_64") {
    Some((elf::EM_X86_64, "x86_64"))
} else if cfg!(target_arch = "aarch64") {
    Some((elf::EM_AARCH64, "aarch64"))
} else {
    None
};
/// The first bytes of an ELF file.
const MAGIC: &[u8] = b"\x7fELF";

/// The flag of `DT_FLAGS_1` that marks an executable, which has the type of a shared library otherwise.
const PIE: u64 = 0x0800_0000;
const EXECUTABLE: LibraryError = LibraryError::NotShared { kind: "an executable" };

/// The reason why a file cannot be loaded as a library.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LibraryError {
    /// It does not begin like an ELF file.
    #[error("it is not a shared library: it does not begin with the four bytes of an ELF file")]
    NotElf,
    /// It is an ELF file, but an executable, an object file or a core dump.
    #[error("it is {kind}, not a shared library: link it with -shared")]
    NotShared {
        /// The kind of file.
        kind: &'static str,
    },
    /// It was compiled for another machine.
    #[error("it was compiled for another machine ({found}); this one is {here}")]
    WrongMachine {
        /// The machine of the file.
        found: String,
        /// This machine.
        here: &'static str,
    },
    /// A part lies behind the end of the file.
    #[error("it was cut off: it has {size} bytes, and its tables name {needed}")]
    Truncated {
        /// Bytes of the file.
        size: u64,
        /// Bytes that the tables name.
        needed: u64,
    },
    /// A table is malformed.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl From<object::read::Error> for LibraryError {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// The tables of a shared library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedLibrary {
    /// The name by which other libraries need it (`DT_SONAME`).
    pub name: Option<String>,
    /// Names of the functions that it exports, sorted.
    pub functions: Vec<String>,
    /// Names of the variables that it exports, sorted.
    pub variables: Vec<String>,
    /// Names of the libraries that it needs (`DT_NEEDED`), in their order.
    pub needed: Vec<String>,
}

impl SharedLibrary {
    /// Reads the tables of a file.
    ///
    /// # Errors
    /// If the dynamic linker of this machine would refuse the file.
    pub fn read(bytes: &[u8]) -> Result<Self, LibraryError> {
        if !bytes.starts_with(MAGIC) {
            return Err(LibraryError::NotElf);
        }
        let header = check_header(bytes)?;
        let endian = header.endian()?;
        check_size(header, endian, bytes)?;
        let sections = header.sections(endian, bytes)?;
        let mut library = Self::default();
        let dynamic = sections.dynamic_table(endian, bytes)?;
        for entry in dynamic.iter() {
            match entry.tag {
                elf::DT_NEEDED => library.needed.push(text(dynamic.string(entry)?)),
                elf::DT_SONAME => library.name = Some(text(dynamic.string(entry)?)),
                elf::DT_FLAGS_1 if entry.val & PIE != 0 => return Err(EXECUTABLE),
                _ => (),
            }
        }
        let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
        for symbol in symbols.iter() {
            let is_exported = !symbol.is_undefined(endian)
                && !symbol.is_local()
                && matches!(symbol.st_visibility(), elf::STV_DEFAULT | elf::STV_PROTECTED);
            let names = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => &mut library.functions,
                elf::STT_OBJECT => &mut library.variables,
                _ => continue,
            };
            if is_exported {
                names.push(text(symbols.symbol_name(endian, symbol)?));
            }
        }
        for names in [&mut library.functions, &mut library.variables] {
            names.sort_unstable();
            names.dedup(); // versions of one symbol
        }
        Ok(library)
    }
}

/// Checks that the file is a shared library for this machine.
fn check_header(bytes: &[u8]) -> Result<&FileHeader64<Endianness>, LibraryError> {
    let truncated = LibraryError::Truncated { size: bytes.len() as u64, needed: 64 };
    if bytes.len() < 64 {
        return Err(truncated);
    }
    let (machine, here) = MACHINE.unwrap_or((elf::EM_NONE, "of no supported kind"));
    let is_wide = bytes[4] == elf::ELFCLASS64.0;
    if !is_wide {
        return Err(LibraryError::WrongMachine { found: "32 bits".to_owned(), here });
    }
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    if header.e_machine(endian) != machine || header.is_big_endian() {
        let found = machine_name(header.e_machine(endian), header.is_big_endian());
        return Err(LibraryError::WrongMachine { found, here });
    }
    let kind = match header.e_type(endian) {
        elf::ET_DYN => return Ok(header),
        elf::ET_EXEC => return Err(EXECUTABLE),
        elf::ET_REL => "an object file",
        elf::ET_CORE => "a core dump",
        _ => "an ELF file of an unknown kind",
    };
    Err(LibraryError::NotShared { kind })
}

fn machine_name(machine: elf::Machine, is_big: bool) -> String {
    let name = match machine {
        elf::EM_X86_64 => "x86_64",
        elf::EM_AARCH64 => "aarch64",
        elf::EM_PPC64 => "ppc64",
        elf::EM_RISCV => "riscv",
        elf::EM_S390 => "s390x",
        elf::EM_ARM => "arm",
        elf::EM_386 => "i386",
        _ => return format!("ELF machine {}", machine.0),
    };
    if is_big { format!("{name}, big-endian") } else { name.to_owned() }
}

/// Checks that no segment and no table lies behind the end of the file.
fn check_size(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    bytes: &[u8],
) -> Result<(), LibraryError> {
    let size = bytes.len() as u64;
    let table = |offset: u64, count: u16, width: u16| {
        offset.saturating_add(u64::from(count) * u64::from(width))
    };
    let mut needed =
        table(header.e_phoff(endian), header.e_phnum(endian), header.e_phentsize(endian))
            .max(table(header.e_shoff(endian), header.e_shnum(endian), header.e_shentsize(endian)));
    if needed <= size {
        for segment in header.program_headers(endian, bytes)? {
            let (start, length) = segment.file_range(endian);
            needed = needed.max(start.saturating_add(length));
        }
    }
    if needed > size { Err(LibraryError::Truncated { size, needed }) } else { Ok(()) }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
