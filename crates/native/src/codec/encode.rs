//! Values to bytes.

use pyo3::ffi;

use super::scalar::encode_scalar;
use super::{ArrayTypes, BlockSink, DEPTH_MAX, tag};
use gristmill_shm::BLOCK_MIN;

/// Whether a value could be written natively.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoded {
    /// The bytes are complete.
    Native,
    /// A part has no native form; the output is to be discarded and the whole pickled.
    Foreign,
    /// There is no memory for a large part; the sink of blocks knows why.
    Unstored,
}

/// Recognises futures among the arguments and gives the index under which each is a parent of the task.
pub trait ParentSink {
    /// The parent's index, or `None` when the object is no future of this engine.
    fn parent(&mut self, object: *mut ffi::PyObject) -> Option<u16>;
}

/// No futures: for results.
impl ParentSink for () {
    fn parent(&mut self, _object: *mut ffi::PyObject) -> Option<u16> {
        None
    }
}

struct Encoder<'a, P> {
    out: &'a mut Vec<u8>,
    parents: &'a mut P,
    arrays: &'a ArrayTypes,
    blocks: &'a mut dyn BlockSink,
    /// Mutable objects met so far: one met twice is left to pickle, which keeps it one object.
    mutable: Vec<*mut ffi::PyObject>,
    /// Elements of tuples that others refer to as well, counted at each meeting.
    shared: usize,
    depth: u32,
}

/// More mutable objects than this are left to pickle, whose table of them is a hash.
const MUTABLE_MAX: usize = 32;
/// Tuples that are referred to from many places are written once for each: with more elements than this, which a few
/// tuples of tuples of one another reach (2^24 from 24 pairs), pickle writes each of them once.
const SHARED_MAX: usize = 1 << 16;

/// Appends the encoding of one value to `out`.
///
/// # Safety
/// The caller holds the interpreter; `object` is a live object.
pub unsafe fn encode_value(
    object: *mut ffi::PyObject,
    out: &mut Vec<u8>,
    arrays: &ArrayTypes,
    blocks: &mut dyn BlockSink,
) -> Encoded {
    let mut encoder =
        Encoder { out, parents: &mut (), arrays, blocks, mutable: Vec::new(), shared: 0, depth: 0 };
    // SAFETY: passed on from the caller.
    unsafe { encoder.value(object) }
}

/// Appends the encoding of one call to `out`: `arguments` are `positional` values and then those that `names` names.
///
/// # Safety
/// The caller holds the interpreter; `arguments` are live objects, `names` are live `str`.
pub unsafe fn encode_call<P: ParentSink>(
    arguments: &[*mut ffi::PyObject],
    names: &[*mut ffi::PyObject],
    parents: &mut P,
    out: &mut Vec<u8>,
    (arrays, blocks): (&ArrayTypes, &mut dyn BlockSink),
) -> Encoded {
    if !begin_call(arguments.len() - names.len(), names.len(), out) {
        return Encoded::Foreign;
    }
    let mut rest = arguments;
    while let [first, others @ ..] = rest {
        // SAFETY: passed on from the caller.
        if !unsafe { encode_scalar(*first, out) } {
            break;
        }
        rest = others;
    }
    if rest.is_empty() && names.is_empty() {
        return Encoded::Native;
    }
    let mut encoder =
        Encoder { out, parents, arrays, blocks, mutable: Vec::new(), shared: 0, depth: 0 };
    for &argument in rest {
        // SAFETY: passed on from the caller.
        let encoded = unsafe { encoder.value(argument) };
        if encoded != Encoded::Native {
            return encoded;
        }
    }
    for &name in names {
        // SAFETY: passed on from the caller.
        let encoded = unsafe { encoder.string(name) };
        if encoded != Encoded::Native {
            return encoded;
        }
    }
    Encoded::Native
}

/// Writes the counts of arguments; false when there are too many.
#[inline]
fn begin_call(positional: usize, named: usize, out: &mut Vec<u8>) -> bool {
    if let (Ok(positional), Ok(named)) = (u8::try_from(positional), u8::try_from(named)) {
        out.extend_from_slice(&[tag::CALL, positional, named]);
        return true;
    }
    let (Ok(positional), Ok(named)) = (u32::try_from(positional), u32::try_from(named)) else {
        return false;
    };
    out.push(tag::WIDE_CALL);
    out.extend_from_slice(&positional.to_le_bytes());
    out.extend_from_slice(&named.to_le_bytes());
    true
}

impl<P: ParentSink> Encoder<'_, P> {
    /// # Safety
    /// As for [`encode_value`], here and in all the methods below.
    unsafe fn value(&mut self, object: *mut ffi::PyObject) -> Encoded {
        // SAFETY: `object` is live, and each branch has checked the exact type that its method needs.
        unsafe {
            if encode_scalar(object, self.out) {
                return Encoded::Native;
            }
            let kind = ffi::Py_TYPE(object);
            if kind == &raw mut ffi::PyUnicode_Type {
                self.string(object)
            } else if kind == &raw mut ffi::PyBytes_Type {
                self.byte_string(object)
            } else {
                self.container(object, kind)
            }
        }
    }

    unsafe fn container(
        &mut self,
        object: *mut ffi::PyObject,
        kind: *mut ffi::PyTypeObject,
    ) -> Encoded {
        if self.depth == DEPTH_MAX {
            return Encoded::Foreign;
        }
        self.depth += 1;
        // SAFETY: each branch has checked the exact type that its method needs.
        let encoded = unsafe {
            if kind == &raw mut ffi::PyTuple_Type {
                self.tuple(object)
            } else if kind == &raw mut ffi::PyList_Type {
                self.list(object)
            } else if kind == &raw mut ffi::PyDict_Type {
                self.dict(object)
            } else if kind == &raw mut ffi::PyComplex_Type {
                self.complex(object)
            } else if let Some(index) = self.parents.parent(object) {
                self.fixed(tag::PARENT, &index.to_le_bytes())
            } else if self.arrays.is_array(kind) && self.met_once(object) {
                self.arrays.encode(object, self.out, self.blocks)
            } else {
                Encoded::Foreign
            }
        };
        self.depth -= 1;
        encoded
    }

    fn fixed<const N: usize>(&mut self, tag: u8, bytes: &[u8; N]) -> Encoded {
        self.out.push(tag);
        self.out.extend_from_slice(bytes);
        Encoded::Native
    }

    unsafe fn complex(&mut self, object: *mut ffi::PyObject) -> Encoded {
        // SAFETY: `object` is a complex, for which these calls cannot raise.
        let (real, imaginary) =
            unsafe { (ffi::PyComplex_RealAsDouble(object), ffi::PyComplex_ImagAsDouble(object)) };
        self.out.push(tag::COMPLEX);
        self.out.extend_from_slice(&real.to_le_bytes());
        self.out.extend_from_slice(&imaginary.to_le_bytes());
        Encoded::Native
    }

    unsafe fn string(&mut self, object: *mut ffi::PyObject) -> Encoded {
        let mut size: ffi::Py_ssize_t = 0;
        // SAFETY: `object` is a str; the bytes live as long as it does.
        let bytes = unsafe {
            let data = ffi::PyUnicode_AsUTF8AndSize(object, &raw mut size);
            if data.is_null() {
                // Lone surrogates have no UTF-8; pickle has a form for them.
                ffi::PyErr_Clear();
                return Encoded::Foreign;
            }
            std::slice::from_raw_parts(data.cast::<u8>(), size.cast_unsigned())
        };
        if bytes.len() >= BLOCK_MIN && self.blocks.takes() {
            return self.block(tag::STR_IN_BLOCK, bytes);
        }
        match u8::try_from(bytes.len()) {
            Ok(short) if bytes.is_ascii() => self.out.extend_from_slice(&[tag::ASCII8, short]),
            _ => {
                if self.counted(tag::STR, bytes.len()) == Encoded::Foreign {
                    return Encoded::Foreign;
                }
            }
        }
        self.out.extend_from_slice(bytes);
        Encoded::Native
    }

    unsafe fn byte_string(&mut self, object: *mut ffi::PyObject) -> Encoded {
        // SAFETY: `object` is a bytes object; its contents live as long as it does and never change.
        let bytes = unsafe {
            let data = ffi::PyBytes_AS_STRING(object).cast::<u8>();
            std::slice::from_raw_parts(data, ffi::PyBytes_Size(object).cast_unsigned())
        };
        if bytes.len() >= BLOCK_MIN && self.blocks.takes() {
            return self.block(tag::BYTES_IN_BLOCK, bytes);
        }
        match u8::try_from(bytes.len()) {
            Ok(short) => self.out.extend_from_slice(&[tag::BYTES8, short]),
            Err(_) => {
                if self.counted(tag::BYTES, bytes.len()) == Encoded::Foreign {
                    return Encoded::Foreign;
                }
            }
        }
        self.out.extend_from_slice(bytes);
        Encoded::Native
    }

    fn block(&mut self, tag: u8, bytes: &[u8]) -> Encoded {
        // SAFETY: a slice is as many readable bytes as it is long, and Python's own strings are not in the arena.
        match unsafe { self.blocks.store(bytes.as_ptr(), bytes.len(), true) } {
            Some(index) => self.fixed(tag, &index.to_le_bytes()),
            None => Encoded::Unstored,
        }
    }

    fn counted(&mut self, tag: u8, count: usize) -> Encoded {
        match u32::try_from(count) {
            Ok(count) => self.fixed(tag, &count.to_le_bytes()),
            Err(_) => Encoded::Foreign,
        }
    }

    unsafe fn tuple(&mut self, object: *mut ffi::PyObject) -> Encoded {
        // SAFETY: `object` is a tuple and `index` below its size, here and in the loop.
        unsafe {
            let size = ffi::PyTuple_GET_SIZE(object);
            if ffi::Py_REFCNT(object) > 1 {
                self.shared += size.cast_unsigned();
                if self.shared > SHARED_MAX {
                    return Encoded::Foreign;
                }
            }
            let mut encoded = self.counted(tag::TUPLE, size.cast_unsigned());
            for index in 0..size {
                if encoded != Encoded::Native {
                    break;
                }
                encoded = self.value(ffi::PyTuple_GET_ITEM(object, index));
            }
            encoded
        }
    }

    unsafe fn list(&mut self, object: *mut ffi::PyObject) -> Encoded {
        if !self.met_once(object) {
            return Encoded::Foreign;
        }
        // SAFETY: `object` is a list and `index` below its size: no Python code runs in between that could shrink it.
        unsafe {
            let size = ffi::PyList_GET_SIZE(object);
            let mut encoded = self.counted(tag::LIST, size.cast_unsigned());
            for index in 0..size {
                if encoded != Encoded::Native {
                    break;
                }
                encoded = self.value(ffi::PyList_GET_ITEM(object, index));
            }
            encoded
        }
    }

    unsafe fn dict(&mut self, object: *mut ffi::PyObject) -> Encoded {
        if !self.met_once(object) {
            return Encoded::Foreign;
        }
        // SAFETY: `object` is a dict; no Python code runs in between that could change it.
        unsafe {
            let mut encoded = self.counted(tag::DICT, ffi::PyDict_Size(object).cast_unsigned());
            let (mut position, mut key, mut value) =
                (0, std::ptr::null_mut(), std::ptr::null_mut());
            while encoded == Encoded::Native
                && ffi::PyDict_Next(object, &raw mut position, &raw mut key, &raw mut value) != 0
            {
                encoded = self.value(key);
                if encoded == Encoded::Native {
                    encoded = self.value(value);
                }
            }
            encoded
        }
    }

    fn met_once(&mut self, object: *mut ffi::PyObject) -> bool {
        if self.mutable.len() == MUTABLE_MAX || self.mutable.contains(&object) {
            return false;
        }
        self.mutable.push(object);
        true
    }
}
