//! Encoding of values to bytes.

use pyo3::ffi;

use super::outcome::EncodeResult;
use super::scalar::encode_scalar;
use super::{ArrayTypes, BlockSink, DEPTH_MAX, tag};
use gristmill_shm::BLOCK_MIN;

/// Recognises futures among the arguments, and assigns each its index among the task's parents.
pub trait ParentSink {
    /// Returns the parent's index, or `None` if the object is not a future of this engine.
    fn parent(&mut self, object: *mut ffi::PyObject) -> Option<u32>;
}

/// No futures: for results.
impl ParentSink for () {
    fn parent(&mut self, _object: *mut ffi::PyObject) -> Option<u32> {
        None
    }
}

struct Encoder<'a, P> {
    out: &'a mut Vec<u8>,
    parents: &'a mut P,
    arrays: &'a ArrayTypes,
    blocks: &'a mut dyn BlockSink,
    /// Mutable objects seen so far. If one of them occurs twice, pickle must encode the whole value, because pickle
    /// keeps the two occurrences one object.
    mutable: Vec<*mut ffi::PyObject>,
    /// Elements of tuples that have other references, counted at each occurrence.
    shared: usize,
    depth: u32,
}

/// Maximum mutable objects in the native form, which searches the list of them one by one. Pickle encodes a value that
/// has more: it looks them up by hash.
const MUTABLE_MAX: usize = 32;
/// Maximum elements of shared tuples in the native form, which writes a tuple again for each reference to it. Nested
/// pairs exceed this quickly: 24 levels of `(x, x)` make 2^24 elements. Pickle writes each tuple once.
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
) -> EncodeResult {
    let mut encoder =
        Encoder { out, parents: &mut (), arrays, blocks, mutable: Vec::new(), shared: 0, depth: 0 };
    // SAFETY: the caller guarantees it.
    unsafe { encoder.value(object) }
}

/// Appends the encoding of one call to `out`. `arguments` are the positional values, then one value for each of
/// `names`.
///
/// # Safety
/// The caller holds the interpreter; `arguments` are live objects, `names` are live `str`.
pub unsafe fn encode_call<P: ParentSink>(
    arguments: &[*mut ffi::PyObject],
    names: &[*mut ffi::PyObject],
    parents: &mut P,
    out: &mut Vec<u8>,
    (arrays, blocks): (&ArrayTypes, &mut dyn BlockSink),
) -> EncodeResult {
    if !begin_call(arguments.len() - names.len(), names.len(), out) {
        return EncodeResult::Foreign;
    }
    let mut rest = arguments;
    while let [first, others @ ..] = rest {
        // SAFETY: the caller guarantees it.
        if !unsafe { encode_scalar(*first, out) } {
            break;
        }
        rest = others;
    }
    if rest.is_empty() && names.is_empty() {
        return EncodeResult::Native;
    }
    let mut encoder =
        Encoder { out, parents, arrays, blocks, mutable: Vec::new(), shared: 0, depth: 0 };
    for &argument in rest {
        // SAFETY: the caller guarantees it.
        let encoded = unsafe { encoder.value(argument) };
        if encoded != EncodeResult::Native {
            return encoded;
        }
    }
    for &name in names {
        // SAFETY: the caller guarantees it.
        let encoded = unsafe { encoder.string(name) };
        if encoded != EncodeResult::Native {
            return encoded;
        }
    }
    EncodeResult::Native
}

/// Writes the counts of arguments. Returns false if there are too many.
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
    /// Appends the encoding of one value.
    ///
    /// # Safety
    /// The same as for [`encode_value`], here and in all the methods below.
    unsafe fn value(&mut self, object: *mut ffi::PyObject) -> EncodeResult {
        // SAFETY: `object` is live, and each branch has checked the exact type that its method needs.
        unsafe {
            if encode_scalar(object, self.out) {
                return EncodeResult::Native;
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
    ) -> EncodeResult {
        if self.depth == DEPTH_MAX {
            return EncodeResult::Foreign;
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
                match u16::try_from(index) {
                    Ok(near) => self.fixed(tag::PARENT, &near.to_le_bytes()),
                    Err(_) => self.fixed(tag::FAR_PARENT, &index.to_le_bytes()),
                }
            } else if self.arrays.is_array(kind) && self.met_once(object) {
                self.arrays.encode(object, self.out, self.blocks)
            } else {
                EncodeResult::Foreign
            }
        };
        self.depth -= 1;
        encoded
    }

    fn fixed<const N: usize>(&mut self, tag: u8, bytes: &[u8; N]) -> EncodeResult {
        self.out.push(tag);
        self.out.extend_from_slice(bytes);
        EncodeResult::Native
    }

    unsafe fn complex(&mut self, object: *mut ffi::PyObject) -> EncodeResult {
        // SAFETY: `object` is a complex, for which these calls cannot raise.
        let (real, imaginary) =
            unsafe { (ffi::PyComplex_RealAsDouble(object), ffi::PyComplex_ImagAsDouble(object)) };
        self.out.push(tag::COMPLEX);
        self.out.extend_from_slice(&real.to_le_bytes());
        self.out.extend_from_slice(&imaginary.to_le_bytes());
        EncodeResult::Native
    }

    unsafe fn string(&mut self, object: *mut ffi::PyObject) -> EncodeResult {
        let mut size: ffi::Py_ssize_t = 0;
        // SAFETY: `object` is a str; the bytes live as long as it does.
        let bytes = unsafe {
            let data = ffi::PyUnicode_AsUTF8AndSize(object, &raw mut size);
            if data.is_null() {
                // Lone surrogates have no UTF-8 form; pickle can encode them.
                ffi::PyErr_Clear();
                return EncodeResult::Foreign;
            }
            std::slice::from_raw_parts(data.cast::<u8>(), size.cast_unsigned())
        };
        if bytes.len() >= BLOCK_MIN && self.blocks.takes() {
            return self.block(tag::STR_IN_BLOCK, bytes);
        }
        match u8::try_from(bytes.len()) {
            Ok(short) if bytes.is_ascii() => self.out.extend_from_slice(&[tag::ASCII8, short]),
            _ => {
                if self.counted(tag::STR, bytes.len()) == EncodeResult::Foreign {
                    return EncodeResult::Foreign;
                }
            }
        }
        self.out.extend_from_slice(bytes);
        EncodeResult::Native
    }

    unsafe fn byte_string(&mut self, object: *mut ffi::PyObject) -> EncodeResult {
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
                if self.counted(tag::BYTES, bytes.len()) == EncodeResult::Foreign {
                    return EncodeResult::Foreign;
                }
            }
        }
        self.out.extend_from_slice(bytes);
        EncodeResult::Native
    }

    fn block(&mut self, tag: u8, bytes: &[u8]) -> EncodeResult {
        // SAFETY: a slice is as many readable bytes as its length. They belong to a `str` or `bytes` that CPython
        // allocated outside the arena. Such an object never changes: `is_readonly` is true.
        match unsafe { self.blocks.store(bytes.as_ptr(), bytes.len(), true) } {
            Some(index) => self.fixed(tag, &index.to_le_bytes()),
            None => EncodeResult::Unstored,
        }
    }

    fn counted(&mut self, tag: u8, count: usize) -> EncodeResult {
        match u32::try_from(count) {
            Ok(count) => self.fixed(tag, &count.to_le_bytes()),
            Err(_) => EncodeResult::Foreign,
        }
    }

    unsafe fn tuple(&mut self, object: *mut ffi::PyObject) -> EncodeResult {
        // SAFETY: `object` is a tuple and `index` below its size, here and in the loop.
        unsafe {
            let size = ffi::PyTuple_GET_SIZE(object);
            if ffi::Py_REFCNT(object) > 1 {
                self.shared += size.cast_unsigned();
                if self.shared > SHARED_MAX {
                    return EncodeResult::Foreign;
                }
            }
            let mut encoded = self.counted(tag::TUPLE, size.cast_unsigned());
            for index in 0..size {
                if encoded != EncodeResult::Native {
                    break;
                }
                encoded = self.value(ffi::PyTuple_GET_ITEM(object, index));
            }
            encoded
        }
    }

    unsafe fn list(&mut self, object: *mut ffi::PyObject) -> EncodeResult {
        if !self.met_once(object) {
            return EncodeResult::Foreign;
        }
        // SAFETY: `object` is a list and `index` is below its size. No Python code that could shrink the list runs in
        // the loop: the encoder accepts only builtin types, futures and `numpy.ndarray`, and reads them with native
        // code.
        unsafe {
            let size = ffi::PyList_GET_SIZE(object);
            let mut encoded = self.counted(tag::LIST, size.cast_unsigned());
            for index in 0..size {
                if encoded != EncodeResult::Native {
                    break;
                }
                encoded = self.value(ffi::PyList_GET_ITEM(object, index));
            }
            encoded
        }
    }

    unsafe fn dict(&mut self, object: *mut ffi::PyObject) -> EncodeResult {
        if !self.met_once(object) {
            return EncodeResult::Foreign;
        }
        // SAFETY: `object` is a dict; no Python code that could change it runs in the loop, as in `list`.
        unsafe {
            let mut encoded = self.counted(tag::DICT, ffi::PyDict_Size(object).cast_unsigned());
            let (mut position, mut key, mut value) =
                (0, std::ptr::null_mut(), std::ptr::null_mut());
            while encoded == EncodeResult::Native
                && ffi::PyDict_Next(object, &raw mut position, &raw mut key, &raw mut value) != 0
            {
                encoded = self.value(key);
                if encoded == EncodeResult::Native {
                    encoded = self.value(value);
                }
            }
            encoded
        }
    }

    /// Records a mutable object. Returns false if it was recorded before, or if `MUTABLE_MAX` objects are recorded
    /// already.
    fn met_once(&mut self, object: *mut ffi::PyObject) -> bool {
        if self.mutable.len() == MUTABLE_MAX || self.mutable.contains(&object) {
            return false;
        }
        self.mutable.push(object);
        true
    }
}
