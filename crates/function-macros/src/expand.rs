//! The code that the attribute adds to a function.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, ReturnType, Signature, Visibility};

use crate::signature::{SignatureForm, form_of};

/// Returns the item with the function that the library exports, or with an error of the compiler.
pub fn expand(arguments: &TokenStream, item: TokenStream) -> TokenStream {
    let added = exported(arguments, item.clone()).unwrap_or_else(Error::into_compile_error);
    quote!(#item #added)
}

/// A function without its body, which the compiler checks.
struct FunctionHead {
    attributes: Vec<Attribute>,
    signature: Signature,
}

impl Parse for FunctionHead {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        input.parse::<Visibility>()?;
        let signature = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok(Self { attributes, signature })
    }
}

/// Returns the exported function.
///
/// # Errors
/// If the item is no function that can be exported.
fn exported(arguments: &TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(arguments, "`#[function]` takes no arguments"));
    }
    // The compiler has parsed the item already, so it is no function with a mistake.
    let no_function = || Error::new_spanned(&item, "`#[function]` is an attribute of functions");
    let FunctionHead { attributes, signature } =
        syn::parse2(item.clone()).map_err(|_| no_function())?;
    let (run, checks) = match form_of(&signature)? {
        SignatureForm::Call => ("run", TokenStream::new()),
        SignatureForm::Slices { input, output } => {
            ("run_on_slices", [input, output].map(check).into_iter().collect())
        }
    };
    // Where the function is exported twice or not at all, so is what exports it.
    let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    // An error about the result is one at its type.
    let at = match &signature.output {
        ReturnType::Default => signature.ident.span(),
        ReturnType::Type(_, result) => result.span(),
    };
    let run = Ident::new(run, Span::call_site().located_at(at));
    let mut name = signature.ident.clone();
    name.set_span(name.span().located_at(at));
    let symbol = Literal::string(&name.unraw().to_string());
    let export = quote_spanned! {Span::call_site().located_at(at)=>
        ::gristmill_function::__export!(#symbol, ::gristmill_function::__private::#run, #name);
    };
    Ok(quote! {
        #(#conditions)*
        const _: () = {
            #checks
            #export
        };
    })
}

/// Returns a check that a type is one of items, whose error is at the type.
fn check(item: &syn::Type) -> TokenStream {
    quote_spanned!(item.span()=> ::gristmill_function::__private::assert_element::<#item>();)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> TokenStream {
        source.parse().expect("the source is Rust")
    }

    /// Returns the source at which an item is refused, and the reason.
    fn refusal(source: &str) -> (String, String) {
        let error = exported(&TokenStream::new(), tokens(source)).expect_err(source);
        (error.span().source_text().unwrap_or_default(), error.to_string())
    }

    #[test]
    fn other_signatures_are_refused_where_they_differ() {
        for (source, place, reason) in [
            ("async fn f(call: &mut Call) {}", "async", "is not `async`"),
            ("unsafe fn f(call: &mut Call) {}", "unsafe", "is not `unsafe`"),
            ("extern \"C\" fn f(call: &mut Call) {}", "extern \"C\"", "has no ABI of its own"),
            ("fn f<T>(a: &[T], b: &mut [T]) -> usize { 0 }", "T", "has no generic parameters"),
            ("fn f<'a>(call: &'a mut Call) {}", "'a", "has no generic parameters"),
            ("fn f(call: &mut Call) where u8: Copy {}", "where u8: Copy", "has no `where` clause"),
            ("fn f(&mut self) {}", "&mut self", "it has no `self`"),
            ("fn f() {}", "f", "takes `call: &mut Call`, or `input: &[T], output: &mut [U]`"),
            ("fn f(a: u8, b: u8, c: u8) {}", "a: u8, b: u8, c: u8", "takes `call: &mut Call`, or"),
            ("fn f(call: &Call) {}", "&Call", "the only parameter"),
            ("fn f(call: Call) {}", "Call", "the only parameter"),
            ("fn f(data: &[u8]) -> usize { 0 }", "&[u8]", "is `call: &mut Call`"),
            ("fn f(c: &mut Call<'static>) {}", "&mut Call<'static>", "is `call: &mut Call`"),
            ("fn f(c: &'static mut Call) {}", "&'static mut Call", "is `call: &mut Call`"),
            ("fn f(a: &mut [u8], b: &mut [i8]) -> usize { 0 }", "&mut [u8]", "is `input: &[T]`"),
            ("fn f(a: Vec<u8>, b: &mut [i8]) -> usize { 0 }", "Vec<u8>", "is `input: &[T]`"),
            ("fn f(a: &[u8], b: &[i8]) -> usize { 0 }", "&[i8]", "is `output: &mut [U]`"),
            (
                "fn f(a: &[u8], b: &'static mut [i8]) -> usize { 0 }",
                "&'static mut [i8]",
                "`output:",
            ),
            ("fn f(a: &[u8], b: &mut [i8]) {}", "f", "returns how many items it wrote"),
            ("struct F;", "struct F;", "is an attribute of functions"),
        ] {
            let (found_place, found_reason) = refusal(source);
            assert_eq!(found_place, place, "{source}");
            assert!(found_reason.contains(reason), "{source}: {found_reason}");
        }
    }

    #[test]
    fn the_attribute_takes_no_arguments() {
        let item = tokens("fn f(call: &mut Call) {}");
        let error = exported(&tokens("name = \"g\""), item).expect_err("arguments");
        assert_eq!(error.to_string(), "`#[function]` takes no arguments");
    }

    #[test]
    fn a_refused_item_stays_beside_the_error() {
        let code = expand(&TokenStream::new(), tokens("fn f() { body() }")).to_string();
        assert!(code.starts_with("fn f () { body () }"), "{code}");
        assert!(code.contains("compile_error"), "{code}");
    }

    #[test]
    fn a_function_is_exported_by_its_name_under_its_conditions() {
        for (source, run, symbol) in [
            ("fn f(call: &mut Call) {}", "run", "f"),
            ("pub fn f(call: &mut gristmill_function::Call<'_>) -> Result<(), E> {}", "run", "f"),
            ("const fn r#type(c: &mut Call) {}", "run", "type"),
            ("fn g(a: &[u8], b: &mut [f64]) -> usize { 0 }", "run_on_slices", "g"),
            ("fn g(a: &[Real], b: &mut [u8]) -> io::Result<usize> {}", "run_on_slices", "g"),
        ] {
            let code = exported(&TokenStream::new(), tokens(source)).expect(source).to_string();
            let code = code.replace(' ', "");
            assert!(code.contains(&format!("__export!(\"{symbol}\",")), "{source}: {code}");
            assert!(code.contains(&format!("__private::{run},")), "{source}: {code}");
            assert!(!code.contains("#["), "{source}: {code}");
        }
        let source = "/// Doc.\n#[cfg(unix)] #[inline] fn f(call: &mut Call) {}";
        let code = exported(&TokenStream::new(), tokens(source)).expect(source).to_string();
        assert!(code.replace(' ', "").starts_with("#[cfg(unix)]const_:()="), "{code}");
    }
}
