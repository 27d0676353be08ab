// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the picked cell, beside the matrix.

const TERMS_SHOWN = 12;

function cellTitle(told) {
    const {matrix, i, j} = told;
    const axis = (name) => say(name || 'column');
    const place = `${axis(matrix.rowAxis)} ${placeText(matrix.rowNames, i)} · ${axis(matrix.colAxis)} ${placeText(matrix.colNames, j)}`;
    return told.head === null ? place : `${say('head_n', {h: told.head})} · ${place}`;
}

// covered: the answer is not to be seen yet. on: {go(place), answer(text), reveal()}
function cellView(told, round, covered, on) {
    const box = el('div.cell');
    const value = covered ? '?' : numberText(told.value, round);
    box.append(el('p.cell-value', {}, el('span.cell-name', {}, rich(told.symbol), `[${told.i}, ${told.j}]`), ` = ${value}`),
        el('p.cell-place', {}, cellTitle(told)));
    const why = told.blocks.find((block) => block.why);
    box.append(el('h3', {}, say(why && !covered ? 'why_hidden' : 'from')));
    const shown = covered ? told.blocks.filter((block) => !why && !block.note) : told.blocks;
    shown.forEach((block) => box.append(blockView(block, covered, told)));
    if (covered) {
        box.append(quiz(on));
        return box;
    }
    if (told.goes.length) {
        box.append(el('h3', {}, say('to')), el('ul.goes', {}, ...told.goes.map((place) => el('li', {}, goButton(place, on.go)))));
    }
    return box;
}

function goButton(place, go) {
    if (!place.stage) {
        return place.text;
    }
    const button = el('button.link', {type: 'button', 'data-go': place.stage}, rich(place.text), ' →');
    button.addEventListener('click', () => go(place));
    return button;
}

function blockView(block, covered, told) {
    if (block.why) {
        return el('ul.why', {}, ...block.why.map((reason) => el('li', {}, reason)));
    }
    if (block.terms) {
        return termsView(block.terms, covered && told.matrix.panel !== 'weights');
    }
    const cut = covered && block.answer ? `${block.line.slice(0, block.line.lastIndexOf(' = '))} = ?` : block.line;
    return el('p.equation', {}, rich(cut));
}

// A table of terms: the first dozen, or the largest, or all.
function termsView(terms, covered) {
    const box = el('div.terms'), view = {all: terms.rows.length <= TERMS_SHOWN, largest: false};
    const draw = () => box.replaceChildren(termsTable(terms, view, covered), termsButtons(terms, view, draw));
    draw();
    return box;
}

function termsTable(terms, view, covered) {
    const last = (row) => row[row.length - 1];
    let rows = view.largest ? [...terms.rows].sort((a, b) => Math.abs(last(b)) - Math.abs(last(a))) : terms.rows;
    rows = view.all ? rows : rows.slice(0, TERMS_SHOWN);
    const most = Math.max(...terms.rows.map((row) => Math.abs(last(row)) || 0), 1e-300);
    const body = rows.map((row) => el('tr', {class: terms.here === row[0] ? 'here' : null},
        ...row.map((x, n) => termCell(x, n === 0, n === row.length - 1 ? most : 0))));
    const head = el('tr', {}, ...terms.head.map((text) => el('th', {scope: 'col'}, rich(text))));
    const label = el('th', {scope: 'row', colspan: String(terms.head.length - 1)}, say('sum'));
    const foot = terms.sum === null ? [] : [el('tfoot', {}, el('tr', {}, label,
                                                                 el('td.number', {}, covered ? '?' : numberText(terms.sum))))];
    return el('div.terms-scroll', {tabindex: '0', role: 'group', 'aria-label': say('from')},
        el('table', {}, el('thead', {}, head), el('tbody', {}, ...body), ...foot));
}

// One digit less than in equations, so that four columns fit.
const termText = (x) => (Number.isFinite(x) ? numberText(Number(x.toPrecision(5))) : numberText(x));

// The last number of a row has a bar of its size beside it.
function termCell(x, first, most) {
    if (first) {
        return el('th', {scope: 'row'}, String(x));
    }
    const cell = el('td.number', {}, x === null ? '' : termText(x));
    if (most && Number.isFinite(x)) {
        cell.classList.add('bar', x < 0 ? 'below' : 'above');
        cell.style.setProperty('--size', `${Math.abs(x) / most * 100}%`);
    }
    return cell;
}

function termsButtons(terms, view, draw) {
    const all = terms.rows.length;
    if (all <= TERMS_SHOWN) {
        return '';
    }
    const button = (text, act) => {
        const made = el('button', {type: 'button'}, text);
        made.addEventListener('click', () => { act(); draw(); });
        return made;
    };
    return el('p.terms-more', {}, el('span', {}, say('terms_shown', {n: view.all ? all : TERMS_SHOWN, all})),
              button(say(view.largest ? 'in_order' : 'largest_first'), () => { view.largest = !view.largest; }),
              view.all ? '' : button(say('show_all', {n: all}), () => { view.all = true; }));
}

function quiz(on) {
    const input = el('input', {type: 'text', id: 'quiz-answer', autocomplete: 'off', size: '10'});
    const verdict = el('p.verdict', {role: 'status'});
    const form = el('form.quiz', {}, el('label', {for: 'quiz-answer'}, say('your_answer')), input,
        el('button.primary', {type: 'submit'}, say('check')));
    form.addEventListener('submit', (event) => {
        event.preventDefault();
        const right = on.answer(input.value);
        verdict.textContent = say(right ? 'right' : 'wrong');
        verdict.dataset.right = String(right);
    });
    const reveal = el('button', {type: 'button', id: 'quiz-reveal'}, say('reveal'));
    reveal.addEventListener('click', () => on.reveal());
    return el('div', {}, form, verdict, reveal);
}

// Right to two decimals, or to one part in a hundred; hidden cells are -inf.
function isRight(text, value) {
    const typed = /^[-−]\s*(∞|inf|infinity)$/i.test(text.trim()) ? -Infinity : typedNumber(text);
    return typed === value || Math.abs(typed - value) <= Math.max(0.0051, Math.abs(value) * 0.01);
}
