// SPDX-License-Identifier: Apache-2.0
// The attentions of a model (encoder, decoder, cross), and its tokens joined to words: the weight on a word is the sum of the weights on
// its tokens, that of a word the mean over its tokens' rows. A row of words sums to 1 as a row of tokens does.

const hasWords = (model) => Boolean(model.info.words) && ['query', 'key'].some((axis) =>
    model.info.words[axis].names.length < model.info.words[axis].of.length);

// Which tokens each word has.
function tokensOfWords({of, names}) {
    const lists = names.map(() => []);
    of.forEach((word, token) => lists[word].push(token));
    return lists;
}

function joinedModel(model) {
    const {query, key} = model.info.words, rows = query.names.length, cols = key.names.length;
    const queries = tokensOfWords(query), keys = tokensOfWords(key);
    const info = {...model.info, shape: {...model.info.shape, Lq: rows, Lk: cols}, summary: null,
                  labels: {...model.info.labels, query: query.names, key: key.names}};
    const read = (first, count) => {
        const numbers = new Float64Array(count), place = first / (rows * cols);
        const head = model.head(Math.floor(place / model.H), place % model.H);
        for (let n = 0; n < count; n++) {
            numbers[n] = joinedTerms(head, queries[Math.floor(n / cols)], keys[n % cols]).reduce((sum, term) => sum + term.part, 0);
        }
        return numbers;
    };
    const joined = new Model(info, {weights: new NumberArray([model.B, model.H, rows, cols], 'f64', read)});
    return Object.assign(joined, {tokens: model, queries, keys});
}

// What the tokens of two words add to the weight of the words.
const joinedTerms = (head, rows, cols) => rows.flatMap((i) => cols.map((j) => {
    const weight = head.value('weights', i, j) || 0;
    return {i, j, weight, part: weight / rows.length};
}));

// The cell of two words, term by term.
function explainJoinedWords(head, i, j) {
    const {tokens, queries, keys} = head.model, {query, key} = tokens.labels;
    const terms = joinedTerms(tokens.head(head.b, head.h), queries[i], keys[j]), n = queries[i].length;
    const rows = terms.map((term) => [`${query[term.i]} → ${key[term.j]}`, term.weight, term.part]);
    return [{line: say('words_cell', {q: n, k: keys[j].length})},
            {terms: {head: ['', 'weights', n > 1 ? `/ ${n}` : ''], rows, sum: terms.reduce((sum, term) => sum + term.part, 0)}}];
}

// The model that is shown, of app.parts.
function choosePart(which, words) {
    const part = app.parts[which];
    app.which = which;
    app.words = words && hasWords(part);
    part.joined = app.words ? part.joined || joinedModel(part) : part.joined;
    app.file = app.words ? part.joined : part;
    setModel(app.file);
}

function switchPart(which, words) {
    if (which !== app.which || words !== app.words) {
        app.picked = null;
    }
    choosePart(which, words);
    render();
}

// Buttons for the attentions, and for tokens or words.
function partControls() {
    const groups = [], shown = app.parts[app.which];
    if (app.parts.length > 1) {
        groups.push(group('part', ...app.parts.map((part, n) =>
            pressButton(say(`part_${part.info.part}`), n === app.which, () => switchPart(n, app.words), {'data-part': part.info.part}))));
    }
    if (hasWords(shown)) {
        groups.push(group('units', ...['tokens', 'words'].map((unit) =>
            pressButton(say(`units_${unit}`), app.words === (unit === 'words'), () => switchPart(app.which, unit === 'words'),
                {'data-units': unit}))));
    }
    return groups;
}
