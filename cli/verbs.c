/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs as the reader meets them: usage, help, man pages. */
#include "options.h"

const verb_desc verb_table[] = {
    {"sdpa", VERB_SDPA, "sdpa Q K V [-o OUT] [options]\nsdpa QKV.npz [-o OUT] [options]", "scaled dot-product attention of three arrays",
     "output = softmax(Q K^T * scale) V. Q, K and V are three files, or one .npz or .safetensors file with the arrays q, k and v.\n\n"
     "Rank 2 is (L,d), rank 3 (H,L,d), rank 4 (B,H,L,d); Q, K and V have the same rank. H must be a multiple of the heads of K and V, "
     "which "
     "are then shared. The output has the rank and the dtype of Q. A row that sees no key gives 0.",
     "# two words, exactly as a textbook does it\nattn sdpa q.csv k.csv v.csv\n"
     "# the last row stands at the last key, as when decoding from a cache\nattn sdpa q.npy k.npy v.npy --causal=bottom-right -o out.npy\n"
     "# straight into NumPy\nattn sdpa q.npy k.npy v.npy | python3 -c 'import io, sys, numpy; "
     "print(numpy.load(io.BytesIO(sys.stdin.buffer.read())))'",
     1, 3},
    {"mha", VERB_MHA, "mha X WEIGHTS --heads H [--memory M] [-o OUT] [options]", "multi-head attention with its projections",
     "Q, K, V = X W_Q + b_Q, ...; each is split into H heads, (L,H*d) -> (L,H,d) -> (H,L,d); the heads are joined again and multiplied by "
     "W_O.\n\n"
     "X is (L,width) or (B,L,width). WEIGHTS is a .npz or .safetensors file with w_q, w_k, w_v, each (in,H*d) or (H,in,d), w_o (H*d,out) "
     "and "
     "perhaps b_q, b_k, b_v, b_o; or packed w_qkv and b_qkv.",
     "# self-attention of Transformer base\nattn mha x.npy weights.npz --heads 8 -o out.npy\n"
     "# weights as PyTorch's nn.MultiheadAttention names and stores them\nattn mha x.npy state.safetensors --torch --heads 12 --causal",
     2, 2},
    {"explain", VERB_EXPLAIN,
     "explain sdpa Q K V [--cell B,H,I[,J]] [options]\nexplain mha X WEIGHTS --heads H [--cell B,H,I[,J]] [options]\n"
     "explain mha --from DIR|FILE.gguf --layer N --text T [options]\nexplain split X "
     "--heads H",
     "show every stage of attention with its formula, shapes and numbers",
     "Each stage is shown with its formula, its shapes and its numbers: scores, scaled, capped, masked, weights, output. A small row is "
     "summed by "
     "hand. --cell shows every number of one row, and why each hidden key is hidden.\n\n"
     "explain split shows how (L,H*d) becomes H heads: by a reshape and a transpose, never by a reshape alone.",
     "# the textbook's two words\nattn explain sdpa q.csv k.csv v.csv\n"
     "# one row of head 2 of a causal run, in Korean\nattn explain sdpa q.npy k.npy v.npy --causal --cell 0,2,5 --lang ko\n"
     "# a layer of a real model, every number of it\n"
     "attn explain mha --from all-MiniLM-L6-v2 --layer 2 --text 'A small cat.' --html cat.html",
     1, 4},
    {"view", VERB_VIEW, "view DIR|FILE.gguf --text T [--html OUT] [options]\nview FILE --html OUT [options]",
     "show the attention of a model, or what another program saved",
     "DIR is a folder as Hugging Face's libraries write it, FILE.gguf one of llama.cpp's: the model reads the text, and the weights of "
     "all its layers and heads are shown, as text or as a page for a browser, with --json and --npz for programs. Of a model that "
     "translates the encoder's, the decoder's and the cross-attention.\n\n"
     "Or FILE is a .npz, .safetensors or .npy file. It holds attention weights as Hugging Face's attentions, one array (L,H,Lq,Lk), "
     "(H,Lq,Lk) or "
     "(L,B,H,Lq,Lk), or an array (B,H,Lq,Lk) or (H,Lq,Lk) for each layer, in the order of the numbers in their names.\n\n"
     "Or it holds stages by name: blocks.0.attn.hook_pattern and others of TransformerLens, or weights, scores and others of attn.\n\n"
     "Of such a file nothing is computed: the page shows its numbers.",
     "# where does each head of each layer look?\nattn view all-MiniLM-L6-v2 --text 'The cat sat on the mat.' --html cat.html\n"
     "# saved with numpy.savez('a.npz', *[a.numpy() for a in out.attentions])\n"
     "attn view a.npz --tokens tokens.json --html a.html",
     1, 1},
    {"diagnose", VERB_DIAGNOSE, "diagnose sdpa Q K V --got OUT [options]\ndiagnose mha X WEIGHTS --heads H --got OUT [options]",
     "say whether an output is right, and if not, which mistake gives it",
     "OUT is compared with the float64 definition, cell by cell, within the error bound of its dtype. If it differs, every known mistake "
     "is "
     "tried, and every two of them: each is a variation of the definition, and it is named when it gives OUT within the bound. Mistakes "
     "that "
     "this data cannot tell apart are all named.\n\n"
     "Large problems are sampled by rows, and the report says so. docs/diagnose.md lists the mistakes.",
     "# what did I do wrong?\nattn diagnose sdpa q.npy k.npy v.npy --causal --got mine.npy\n"
     "# a layer with its weights, in Korean\nattn diagnose mha x.npy weights.npz --heads 8 --got mine.npy --lang ko",
     1, 4},
    {"show", VERB_SHOW, "show FILE", "print the shape, dtype and values of the arrays in a file",
     "FILE is .npy, .npz, .safetensors, .gguf, or .csv or .txt with numbers. Large arrays are shortened; of a .gguf the values by key are "
     "shown, and what each tensor is.",
     "# what is in there?\nattn show weights.npz\n# which model is it, and how is it quantised?\nattn show model.gguf", 1, 1},
    {"selftest", VERB_SELFTEST, "selftest [--isa NAME] [--json]", "compare the kernels of this machine with the float64 definition",
     "Runs every instruction set level that this CPU can run (with --isa or ATTN_ISA that one only) on built-in data and compares with "
     "the float64 reference within the documented error bound. Exit code 1 when a level is outside.",
     "# is this build right on this machine?\nattn selftest", 0, 0},
    {"info", VERB_INFO, "info [--json]", "print the version, the CPU and what runs on it",
     "Version, CPU, instruction set levels (built in, usable, chosen), threads, dtypes and file formats.",
     "# what would run here?\nattn info", 0, 0},
    {"bench", VERB_BENCH, "bench [--suite NAME] [--json | --markdown] [--compare F]", "measure the speed as a share of this CPU's limits",
     "Each case is measured in turns with the limit of the same cores: the multiply-add peak, or, where little is computed with much "
     "memory "
     "(decode, products with one row), the rate at which memory of that size is read. Medians; \"spread\" is half of the range that holds "
     "the "
     "middle half of the samples. \"beside\" is the time of another case over this one's, both measured in turns. One thread is used "
     "unless --threads says "
     "otherwise, and timed by the CPU time it got; several threads are timed by the clock on the wall.\n\n"
     "One multiply-add counts as two operations, and only visible cells count: 4*d of each cell, 2*terms of each element of a projection. "
     "\"memory\" is what the library took beyond its arguments.",
     "# how close to the peak?\nattn bench\n# did a change make it faster?\nattn bench --suite prefill --json > before.json\n"
     "attn bench --suite prefill --compare before.json",
     0, 0},
    {"generate", VERB_GENERATE, "generate DIR|FILE.gguf --prompt TEXT [-n N] [--chat] [options]",
     "let a language model go on with a text, or translate it",
     "DIR is a folder as Hugging Face's libraries write it (Llama, Qwen2, Qwen3, Mistral, GPT-2), FILE.gguf one of llama.cpp's "
     "(architectures llama, qwen2 and qwen3). The answer is printed while it comes, its speed at the end on standard error. "
     "The same seed gives the same answer, for any number of threads. An interrupt ends the answer where it is, with exit status 130.\n\n"
     "Or DIR holds a MarianMT model: then the text is translated.",
     "# go on with a text\nattn generate model.gguf --prompt 'Once upon a time' -n 64\n"
     "# ask, and draw the words\nattn generate model.gguf --chat --prompt 'What is attention?' --temperature 0.7 --top-p 0.9 --seed 1\n"
     "# translate, with four beams\nattn generate opus-mt-en-de --prompt 'Attention is all you need.' --beams 4",
     1, 1},
    {"embed", VERB_EMBED, "embed DIR --text TEXT | --file F [-o OUT] [options]", "turn texts into vectors by an encoder",
     "DIR is a folder as Hugging Face's libraries and sentence-transformers write it: BERT, RoBERTa, XLM-R, CamemBERT, DistilBERT, with "
     "their tokenizer. The rows of a text's tokens become one vector as the folder declares (modules.json): pooling, Dense, Normalize, "
     "prompts and the greatest length. Without that the rows are averaged.\n\n"
     "A vector depends on nothing but its own text: not on the others, their order or the threads. Without -o a terminal gets a table, and "
     "for few texts the cosine of every two.",
     "# which two say the same?\nattn embed all-MiniLM-L6-v2 --text 'The sky is blue.' --text 'Blue is the sky.' --text 'It rains.'\n"
     "# a text on each line, the vectors for NumPy\nattn embed all-MiniLM-L6-v2 --file texts.txt -o vectors.npy\n"
     "# with the prompt that the model declares for questions\nattn embed e5-base-v2 --prompt query --text 'what is attention?' -o q.npy",
     1, 1},
};

const int verb_count = (int)(sizeof verb_table / sizeof verb_table[0]);
