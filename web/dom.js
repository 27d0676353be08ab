// SPDX-License-Identifier: Apache-2.0
// Making elements. Text goes in as text only; styles are set by the style sheet or by properties, which the content policy allows.

// el('div.a.b', {attribute: value, ...}, children...); an attribute that is null is left out.
function el(kind, attributes = {}, ...children) {
    const [name, ...classes] = kind.split('.');
    const element = document.createElement(name);
    if (classes.length) {
        element.className = classes.join(' ');
    }
    for (const [key, value] of Object.entries(attributes)) {
        if (value !== null && value !== undefined) {
            element.setAttribute(key, value);
        }
    }
    element.append(...children);
    return element;
}

// A formula with W_Q as a subscript, K^T and e^(a - b) as superscripts.
function rich(text) {
    const parts = document.createElement('span');
    for (const piece of text.split(/([_^]\w+|\^\([^()]*\))/)) {
        const kind = {_: 'sub', '^': 'sup'}[piece[0]];
        parts.append(kind && piece.length > 1 ? el(kind, {}, piece.slice(1).replace(/^\((.*)\)$/, '$1')) : piece);
    }
    return parts;
}

// The same where only plain text can stand.
const plainFormula = (text) => text.replace(/\^T/g, 'ᵀ');

const byId = (id) => document.getElementById(id);
