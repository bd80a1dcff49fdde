//! Signatures of functions that can be exported.

use quote::ToTokens;
use syn::{Error, FnArg, PathArguments, ReturnType, Safety, Signature, Type, TypeReference};

/// The two forms of a signature, for messages.
const FORMS: &str = "a native function takes `call: &mut Call`, or `input: &[T], output: &mut [U]`";

/// The form of a function's signature.
pub enum SignatureForm<'a> {
    /// It takes a `Call`.
    Call,
    /// It takes the items of the input, and those of the output.
    Slices {
        /// The type of the input's items.
        input: &'a Type,
        /// The type of the output's items.
        output: &'a Type,
    },
}

/// Returns the form of a signature.
///
/// # Errors
/// If a function with it cannot be exported. The types of items and of the result are left to the compiler.
pub fn form_of(signature: &Signature) -> syn::Result<SignatureForm<'_>> {
    refuse_qualifiers(signature)?;
    let mut types = Vec::new();
    for parameter in &signature.inputs {
        match parameter {
            FnArg::Receiver(own) => {
                return error(own, "a native function is no method: it has no `self`");
            }
            FnArg::Typed(parameter) => types.push(plain(&parameter.ty)),
        }
    }
    match types[..] {
        [call] => {
            refuse_other_call(call)?;
            Ok(SignatureForm::Call)
        }
        [input, output] => {
            let (input, output) = (items_of(input, false)?, items_of(output, true)?);
            if matches!(signature.output, ReturnType::Default) {
                let text = "a native function on slices returns how many items it wrote: `usize` or `Result<usize, E>`";
                return error(&signature.ident, text);
            }
            Ok(SignatureForm::Slices { input, output })
        }
        [] => error(&signature.ident, FORMS),
        _ => error(&signature.inputs, FORMS),
    }
}

/// Refuses functions that cannot be called as they are.
fn refuse_qualifiers(signature: &Signature) -> syn::Result<()> {
    if let Some(word) = &signature.asyncness {
        return error(word, "a native function is not `async`: its task ends when it returns");
    }
    if let Safety::Unsafe(word) = &signature.safety {
        return error(word, "a native function is not `unsafe`: tasks pass it any input");
    }
    if let Some(abi) = &signature.abi {
        return error(
            abi,
            "a native function has no ABI of its own: `#[function]` exports one that has it",
        );
    }
    if let Some(dots) = &signature.variadic {
        return error(dots, FORMS);
    }
    let generics = &signature.generics;
    if !generics.params.is_empty() {
        return error(
            &generics.params,
            "a native function has no generic parameters: a symbol is one function",
        );
    }
    if let Some(clause) = &generics.where_clause {
        return error(clause, "a native function has no `where` clause: it is not generic");
    }
    Ok(())
}

/// Refuses the type of an only parameter that is not `&mut Call`.
fn refuse_other_call(found: &Type) -> syn::Result<()> {
    let is_call = match found {
        Type::Reference(TypeReference { mutability: Some(_), lifetime, elem, .. }) => {
            lifetime.is_none() && is_named_call(plain(elem))
        }
        _ => false,
    };
    if is_call {
        Ok(())
    } else {
        error(found, "the only parameter of a native function is `call: &mut Call`")
    }
}

fn is_named_call(found: &Type) -> bool {
    let Type::Path(found) = found else { return false };
    let last = found.path.segments.last();
    last.is_some_and(|last| {
        let arguments = last.arguments.to_token_stream().to_string().replace(' ', "");
        let is_elided = matches!(last.arguments, PathArguments::None) || arguments == "<'_>";
        last.ident == "Call" && is_elided
    })
}

/// Returns the type of the items of a slice.
fn items_of(found: &Type, is_output: bool) -> syn::Result<&Type> {
    if let Type::Reference(TypeReference { mutability, lifetime: None, elem, .. }) = found
        && mutability.is_some() == is_output
        && let Type::Slice(slice) = plain(elem)
    {
        return Ok(&slice.elem);
    }
    let text = if is_output {
        "the second parameter of a native function is `output: &mut [U]`"
    } else {
        "the first of two parameters of a native function is `input: &[T]`"
    };
    error(found, text)
}

/// Returns a type without the groups in which macros put it.
fn plain(mut found: &Type) -> &Type {
    while let Type::Group(group) = found {
        found = &group.elem;
    }
    found
}

fn error<T>(at: &impl ToTokens, text: &str) -> syn::Result<T> {
    Err(Error::new_spanned(at, text))
}
